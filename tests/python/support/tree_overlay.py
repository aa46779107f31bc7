"""New sources on top of the tree, built beside it: what an edit of the tree would give, without editing it.

Files lie below a folder as they would below the repository. Only they, and the sources that include a list among them, are compiled;
programs are linked from these and the objects of the release build.
"""

import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "release"
PROGRAMS = {"sx_test": "sx_test", "sardonyx_cli": "sardonyx"}


def is_built() -> bool:
    return (BUILD / "build.ninja").exists() and (BUILD / "sx_test").exists()


class Overlay:
    def __init__(self, folder: Path):
        self.folder = folder
        self.objects: dict[Path, str] = {}  # source -> the text it was compiled from
        (folder / "build" / "release").mkdir(parents=True)

    def write(self, path: str, text: str) -> None:
        assert not (ROOT / path).exists(), f"{path} is in the tree already"
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def append(self, path: str, line: str) -> None:
        """Adds a line at the end of a file of the tree."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text((ROOT / path).read_text().rstrip("\n") + "\n" + line)

    def build(self, target: str) -> None:
        *compile_commands, link = subprocess.run(
            ["ninja", "-C", BUILD, "-t", "commands", target], check=True, capture_output=True, text=True
        ).stdout.splitlines()
        compile_commands = [c for c in compile_commands if f" -c {ROOT}/src/" in c]
        lists = [p.relative_to(self.folder / "src") for p in self.folder.glob("src/**/*.def")]
        sources = [*self.folder.glob("src/**/*.cc")]
        for command in compile_commands:
            source = Path(command.split(" -c ")[1])
            if any(f'#include "{name}"' in source.read_text() for name in lists):
                sources.append(source)
        for source in sources:
            self._compile(source, compile_commands[0])
        objects = " ".join(shlex.quote(str(self._object(s))) for s in sources)
        program = self.folder / "build" / "release" / PROGRAMS[target]
        program.unlink(missing_ok=True)  # it may be a link to the tree's own
        link = link.replace(f"-o {PROGRAMS[target]} ", f"-o {shlex.quote(str(program))} {objects} ")
        subprocess.run(link, shell=True, check=True, cwd=BUILD)

    def _object(self, source: Path) -> Path:
        return self.folder / "build" / f"{source.stem}.o"

    def _compile(self, source: Path, model: str) -> None:
        text = source.read_text() + "".join(p.read_text() for p in sorted(self.folder.glob("src/**/*.def")))
        if self.objects.get(source) == text:
            return
        words = shlex.split(model)
        words = words[words.index(next(w for w in words if w.endswith("c++") or w.endswith("g++"))) :]
        flags = [w for w in words[: words.index("-MD")] if not w.startswith("-I")]
        includes = [f"-I{self.folder / 'src'}", *(w for w in words if w.startswith("-I"))]
        subprocess.run([*flags, *includes, "-c", source, "-o", self._object(source)], check=True, cwd=BUILD)
        self.objects[source] = text
