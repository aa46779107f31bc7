"""Run the libFuzzer targets for some minutes each, and keep what they find.

    scripts/checks/fuzz_bytes.py MINUTES [TARGET...]

Seeds and dictionaries come from scripts/checks/fuzz_seeds.py. The corpus in build/fuzz/corpus grows from run to run.
An input that crashes, hangs or asks for too much memory is left in build/fuzz/found: fix the fault and move
the input to tests/bytes/kept/TARGET.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
TARGETS = ["onnx", "coreml", "text", "program", "mlir_text", "mlir_bytecode"]


def main() -> int:
    minutes = float(sys.argv[1])
    corpus, found = BUILD / "corpus", BUILD / "found"
    found.mkdir(parents=True, exist_ok=True)
    if not corpus.exists():
        fresh = BUILD / "corpus.new"  # renamed only once the seeds are complete
        shutil.rmtree(fresh, ignore_errors=True)
        subprocess.run([sys.executable, ROOT / "scripts" / "checks" / "fuzz_seeds.py", fresh], check=True)
        fresh.rename(corpus)
    bad = []
    for target in sys.argv[2:] or TARGETS:
        print(f"== {target}, {minutes:g} minutes", flush=True)
        command = [
            BUILD / f"sx_bytes_{target}",
            f"-max_total_time={int(minutes * 60)}",
            "-max_len=20000",
            "-timeout=5",  # seconds for one input of at most 20 kB
            "-malloc_limit_mb=64",
            "-rss_limit_mb=2000",
            "-print_final_stats=1",
            "-verbosity=0",
            f"-dict={corpus / (target + '.dict')}",
            f"-artifact_prefix={found}/{target}-",
            corpus / target,
            ROOT / "tests" / "bytes" / "kept" / target,
        ]
        if subprocess.run([str(c) for c in command], check=False).returncode:
            bad.append(target)
    if bad:
        print(f"inputs that did harm are in {found}: {', '.join(bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
