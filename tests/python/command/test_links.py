"""Folders of symbolic links: results are named after their inputs, and nothing is written to a link's target."""

import os
import shutil
from pathlib import Path

import numpy as np
import onnx
from command import BUILD, sardonyx
from onnx import helper, numpy_helper
from test_security import package  # noqa: F401  (a fixture)


def write_model(path: Path, data: str | None = None) -> None:
    """y = Relu(Relu(x)) + w, with the weights in a file beside the model if `data` names one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = numpy_helper.from_array(np.arange(300, dtype=np.float32).reshape(3, 100), "w")
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Add", ["b", "w"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", 1, [3, 100])], [value("y", 1, [3, 100])], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    where = {"save_as_external_data": True, "location": data, "size_threshold": 0} if data else {}
    onnx.save(model, path, **where)


def nodes_in(path: Path) -> list[str]:
    return [n.op_type for n in onnx.load(path).graph.node]


def files_in(folder: Path) -> dict[str, bytes]:
    """All files in a folder, without following links."""
    found = {}
    for at, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(at, name)
            if path.is_symlink():
                found[str(path.relative_to(folder))] = b"-> " + os.readlink(path).encode()
            elif path.is_file():
                found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def optimize(*arguments, ok=True, command=("optimize",)):
    return sardonyx(*command, *arguments, "--quiet", ok=ok)


def test_a_folder_of_links_leaves_what_they_lead_to(tmp_path):
    write_model(tmp_path / "real/m.onnx")
    before = files_in(tmp_path / "real")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/m.onnx").symlink_to("../real/m.onnx")
    for command in (("optimize",), ("convert", "--opset", "22")):
        optimize(tmp_path / "in", "-o", tmp_path / command[0], command=command)
        assert list(files_in(tmp_path / command[0])) == ["m.onnx"]
        assert files_in(tmp_path / "real") == before
    assert nodes_in(tmp_path / "optimize/m.onnx") == ["Relu", "Add"]


def test_download_caches(tmp_path):
    """Snapshots are separate links to blobs named by their content."""
    blobs, snapshot = tmp_path / "models--a--b/blobs", tmp_path / "models--a--b/snapshots/1234/onnx"
    write_model(tmp_path / "made/model.onnx", data="model.onnx_data")
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted((tmp_path / "made").iterdir())):
        shutil.move(file, blobs / f"{number:064x}")
        (snapshot / file.name).symlink_to(f"../../../blobs/{number:064x}")
    before = files_in(tmp_path / "models--a--b")
    for number, options in enumerate(([], ["--external-data"], ["--external-data=model.onnx_data"])):
        out = tmp_path / f"out{number}"
        optimize(tmp_path / "models--a--b", "-o", out, *options)
        written = {name.removeprefix("snapshots/1234/onnx/") for name in files_in(out)}
        assert written == {
            "model.onnx",
            *(["model.onnx_data"] if number == 2 else ["model.onnx.data"] if number else []),
        }
        assert nodes_in(out / "snapshots/1234/onnx/model.onnx") == ["Relu", "Add"]
        assert files_in(tmp_path / "models--a--b") == before
    # In place: the links become files.
    optimize(snapshot, "-o", snapshot)
    assert nodes_in(snapshot / "model.onnx") == ["Relu", "Add"] and not (snapshot / "model.onnx").is_symlink()
    assert files_in(blobs) == {k.removeprefix("blobs/"): v for k, v in before.items() if k.startswith("blobs/")}


def test_links_to_folders_and_cycles(tmp_path):
    write_model(tmp_path / "elsewhere/deep/m.onnx")
    write_model(tmp_path / "in/n.onnx")
    (tmp_path / "in/sub").symlink_to("../elsewhere")
    (tmp_path / "in/loop").symlink_to(".")
    (tmp_path / "elsewhere/up").symlink_to("../in")
    (tmp_path / "in/self").symlink_to("self")
    before = files_in(tmp_path)
    optimize(tmp_path / "in", "-o", tmp_path / "out")
    assert sorted(files_in(tmp_path / "out")) == ["n.onnx", "sub/deep/m.onnx"]
    shutil.rmtree(tmp_path / "out")
    assert files_in(tmp_path) == before
    (tmp_path / "given").symlink_to("in")
    for number, given in enumerate(("given", "given/", "in/.", "in/sub/../in")):  # the input itself may be a link
        optimize(f"{tmp_path}/{given}", "-o", tmp_path / f"out{number}")
        assert sorted(files_in(tmp_path / f"out{number}")) == ["n.onnx", "sub/deep/m.onnx"], given


def test_a_dangling_link_and_a_pipe_are_told_of(tmp_path):
    write_model(tmp_path / "in/m.onnx")
    (tmp_path / "in/gone.onnx").symlink_to("nowhere.onnx")
    os.mkfifo(tmp_path / "in/pipe.onnx")
    done = optimize(tmp_path / "in", "-o", tmp_path / "out", ok=False)
    assert done.returncode == 1
    assert "gone.onnx" in done.stderr and "pipe.onnx' is not a regular file" in done.stderr
    assert list(files_in(tmp_path / "out")) == ["m.onnx"] and not (tmp_path / "in/nowhere.onnx").exists()


def test_the_output_may_lie_in_the_input(tmp_path):
    """A second run does not treat the first one's results as models."""
    write_model(tmp_path / "in/m.onnx")
    (tmp_path / "in/link").symlink_to("out")
    for _ in range(2):
        optimize(tmp_path / "in", "-o", tmp_path / "in/out")
        assert sorted(files_in(tmp_path / "in")) == ["link", "m.onnx", "out/m.onnx"]


def test_an_output_that_is_a_link(tmp_path):
    write_model(tmp_path / "m.onnx")
    write_model(tmp_path / "real/m.onnx")
    before = files_in(tmp_path / "real")
    (tmp_path / "link.onnx").symlink_to("real/m.onnx")
    (tmp_path / "dangling.onnx").symlink_to("real/new.onnx")
    (tmp_path / "data").symlink_to("real/m.onnx")
    optimize(tmp_path / "m.onnx", "-o", tmp_path / "link.onnx")
    optimize(tmp_path / "m.onnx", "-o", tmp_path / "dangling.onnx", "--external-data=data")
    for name in ("page.html", "result.npz"):
        (tmp_path / name).symlink_to("real/m.onnx")
    sardonyx("view", tmp_path / "m.onnx", "-o", tmp_path / "page.html")
    sardonyx("run", "--seed", "0", tmp_path / "m.onnx", "-o", tmp_path / "result.npz")
    for name in ("link.onnx", "dangling.onnx", "data", "page.html", "result.npz"):
        assert (tmp_path / name).is_file() and not (tmp_path / name).is_symlink(), name
    assert files_in(tmp_path / "real") == before
    (tmp_path / "folder").symlink_to("made")  # a link to a folder names the folder
    (tmp_path / "made").mkdir()
    optimize(tmp_path / "m.onnx", "-o", tmp_path / "folder")
    assert list(files_in(tmp_path / "made")) == ["m.onnx"] and (tmp_path / "folder").is_symlink()


def test_a_link_in_the_output_does_not_lead_out_of_it(tmp_path):
    write_model(tmp_path / "in/sub/m.onnx")
    write_model(tmp_path / "other/m.onnx")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/sub").symlink_to("../other")
    before = files_in(tmp_path)
    done = optimize(tmp_path / "in", "-o", tmp_path / "out", ok=False)
    assert done.returncode == 2 and "a symbolic link leads there" in done.stderr
    assert files_in(tmp_path) == before


def test_models_do_not_share_a_data_file(tmp_path):
    write_model(tmp_path / "in/a.onnx")
    write_model(tmp_path / "in/b.onnx")
    done = optimize(tmp_path / "in", "-o", tmp_path / "out", "--external-data=w", ok=False)
    assert (
        done.returncode == 2 and "would both have their data in 'w'" in done.stderr and not (tmp_path / "out").exists()
    )
    done = optimize(tmp_path / "in/a.onnx", "-o", tmp_path / "o.onnx", "--external-data=o.onnx", ok=False)
    assert done.returncode == 2 and "is the model file itself" in done.stderr


def test_a_redirected_stdout_is_written_to(tmp_path):
    """/dev/stdout is a link as well: to a file, after a redirection."""
    write_model(tmp_path / "m.onnx")
    os.system(f"'{BUILD}/sardonyx' view '{tmp_path}/m.onnx' -o /dev/stdout > '{tmp_path}/page'")
    assert Path("/dev/stdout").is_symlink() and "<html" in (tmp_path / "page").read_text().lower()


def test_folders_of_core_ml(package, tmp_path):  # noqa: F811
    shutil.copytree(package, tmp_path / "real/x.mlpackage")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/m.mlpackage").symlink_to("../real/x.mlpackage")
    before = files_in(tmp_path / "real")
    optimize(tmp_path / "in", "-o", tmp_path / "out", command=("optimize",))
    assert {name.split("/")[0] for name in files_in(tmp_path / "out")} == {"m.mlpackage"}
    assert files_in(tmp_path / "real") == before
    optimize(package, "-o", tmp_path / "in/m.mlpackage", command=("optimize",))  # replaces the link
    assert not (tmp_path / "in/m.mlpackage").is_symlink() and files_in(tmp_path / "real") == before
    (tmp_path / "gone.mlpackage").symlink_to("real/new.mlpackage")
    optimize(package, "-o", tmp_path / "gone.mlpackage", command=("optimize",))
    assert not (tmp_path / "gone.mlpackage").is_symlink() and files_in(tmp_path / "real") == before
    shares = [p for p in (tmp_path / "in").rglob("*") if p.is_file() and p.stat().st_nlink > 1]
    assert not shares


def test_a_package_of_links(package, tmp_path):  # noqa: F811
    """As in download caches: the weights keep the name that the program uses."""
    (tmp_path / "blobs").mkdir()
    for number, file in enumerate(sorted(p for p in package.rglob("*") if p.is_file())):
        shutil.copy(file, tmp_path / f"blobs/{number}")
        link = tmp_path / "snapshot/x.mlpackage" / file.relative_to(package)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(tmp_path / f"blobs/{number}", link.parent))
    before = files_in(tmp_path)
    optimize(tmp_path / "snapshot", "-o", tmp_path / "out", command=("optimize",))
    optimize(package, "-o", tmp_path / "plain.mlpackage", command=("optimize",))
    assert files_in(tmp_path / "out/x.mlpackage") == files_in(tmp_path / "plain.mlpackage")
    shutil.rmtree(tmp_path / "out")
    shutil.rmtree(tmp_path / "plain.mlpackage")
    assert files_in(tmp_path) == before
    (tmp_path / "snapshot/x.mlpackage/notes").symlink_to("/etc/passwd")
    done = optimize(tmp_path / "snapshot/x.mlpackage", "-o", tmp_path / "y.mlpackage", command=("optimize",), ok=False)
    assert done.returncode == 1 and "leads out of the package" in done.stderr


def test_external_data_does_not_leave_the_folder_by_a_link(tmp_path):
    write_model(tmp_path / "made/m.onnx", data="w")
    (tmp_path / "in").mkdir()
    shutil.copy(tmp_path / "made/m.onnx", tmp_path / "in")
    (tmp_path / "in/w").symlink_to("../made/w")
    done = optimize(tmp_path / "in", "-o", tmp_path / "out", ok=False)
    assert done.returncode == 1 and "leads out of the model's folder" in done.stderr
