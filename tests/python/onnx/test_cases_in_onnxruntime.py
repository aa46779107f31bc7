"""Both sides of every text case of the onnx dialect in onnxruntime: where the left one runs, the right one loads, runs and agrees.

What a release does not run, or computes otherwise, stands in tests/onnxruntime/cases.txt by name and reason.
"""

import subprocess

import pytest
from command import BUILD
from judge import RUNTIME
from onnxruntime_cases import Listed, verdicts

ROOT = BUILD.parents[1]
LISTED = Listed().by_release


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")
    command = [BUILD / "sx_test", f"--write-models={folder}", "src", "tests"]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return verdicts(folder)


def listed() -> dict[str, str]:
    """A release without a section uses that of the newest release that has one."""
    own = [name for name in LISTED if tuple(map(int, name.split("."))) <= RUNTIME]
    return LISTED[max(own or LISTED, key=lambda name: tuple(map(int, name.split("."))))]


def test_both_sides_agree(found):
    known = listed()
    wrong = [
        f"{case}\n    {v['wrong']}"
        for case, v in found.items()
        if "wrong" in v and "differs" not in known.get(case, "")
    ]
    assert not wrong, "\n".join([f"{len(wrong)} cases", *wrong])
    assert sum("runs" in v for v in found.values()) > 1000


def test_the_list_is_exact(found):
    if ".".join(map(str, RUNTIME)) not in LISTED:
        pytest.skip(f"there is no list for onnxruntime {RUNTIME}")
    refused = {case: v["refused"] for case, v in found.items() if "refused" in v}
    differs = {case: listed().get(case, "") for case, v in found.items() if "wrong" in v}
    assert refused | differs == listed()
