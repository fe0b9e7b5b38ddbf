"""What the fuzzers share: damage to files, and loading in child processes with little memory and time.

A fuzzer is a module with `prepare()`; `load(path)`, which says what became of a file; and `forbids(event, arguments)`,
which tells for what an audit hook ends the child.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import islice
from pathlib import Path

MEMORY, SECONDS = 300 * 2**20, 2.0  # more than before loading a file, and of a processor
EXTREMES = (0, 1, 2, 4, 7, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF8, 2**24, 2**28, 14, 15, 9)


def damage(content, random):
    """Change a file as faulty disks, transfers and attackers do."""
    changed = bytearray(content)
    a, b, c = (int(place) for place in sorted(random.integers(len(content), size=3)))
    words = [4 * (place // 4) for place in (a, b)]
    match random.integers(8):
        case 0:
            changed[b] ^= 1 << random.integers(8)
        case 1:
            for k in random.integers(len(content), size=random.integers(1, 20)):
                changed[k] = random.integers(256)
        case 2:
            del changed[b:]
        case 3:
            del changed[b : b + random.integers(1, 100)]
        case 4:
            changed[b : b + 512] = bytes(len(changed[b : b + 512]))
        case 5:  # a piece of the file somewhere else
            changed[a:a] = changed[b:c]
        case 6:  # where a size may be
            changed[words[0] : words[0] + 4] = struct.pack("<I", EXTREMES[random.integers(len(EXTREMES))])
        case 7:  # two words swapped, which may be sizes or types
            first, second = (changed[at : at + 4] for at in words)
            changed[words[0] : words[0] + 4], changed[words[1] : words[1] + 4] = second, first
    return bytes(changed)


def child(name, folder):
    """Load all files of a folder; print one line of JSON before and after each."""
    fuzzer = importlib.import_module(name)
    fuzzer.prepare()
    paths = [next(case.iterdir()) for case in sorted(Path(folder).iterdir(), key=lambda case: int(case.name))]
    status, peak = open("/proc/self/status"), open("/proc/self/clear_refs", "w")  # noqa: SIM115

    def size(field):
        status.seek(0)
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(f"{field}:"))

    resource.setrlimit(resource.RLIMIT_DATA, (size("VmData") + MEMORY,) * 2)

    def hook(event, arguments):
        if fuzzer.forbids(event, arguments):
            os.write(2, f"forbidden: {event} {arguments!r}\n".encode())
            os.abort()

    sys.addaudithook(hook)
    for path in paths:
        print(json.dumps({"case": path.parent.name}), flush=True)
        peak.write("5")  # the peak of memory starts anew
        peak.flush()
        before, start = size("VmRSS"), sum(os.times()[:4])  # with the times of other processes
        try:
            outcome = fuzzer.load(path)
        except BaseException as error:
            outcome = f"bad error: {error!r} from {error.__cause__!r}"
        found = {"seconds": sum(os.times()[:4]) - start, "memory": size("VmHWM") - before}
        print(json.dumps({"case": path.parent.name, "outcome": outcome} | found), flush=True)
    os._exit(0)  # the hook may forbid what Python does at its end


def run(name, cases, expected=None, batch=250):
    """Load cases, the names of files and their content, or existing files: outcomes, most time and memory, failures.

    An outcome with a colon is a failure, and so is any other than those expected.
    """
    outcomes, failures, slowest, largest = Counter(), [], 0.0, 0
    cases = iter(cases)
    while some := list(islice(cases, batch)):
        with tempfile.TemporaryDirectory() as folder:
            for k, (file, content) in enumerate(some):
                path = Path(folder, str(k), file)
                path.parent.mkdir()
                path.symlink_to(content) if isinstance(content, Path) else path.write_bytes(content)
            command = [sys.executable, "-W", "ignore", __file__, "--child", name, folder]
            environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2000)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        ended = [line for line in lines if "outcome" in line]
        for line in ended:
            outcomes[line["outcome"].split(":")[0]] += 1
            slowest, largest = max(slowest, line["seconds"]), max(largest, line["memory"])
            good = ":" not in line["outcome"] if expected is None else line["outcome"] in expected
            if not good or line["seconds"] > SECONDS or line["memory"] > MEMORY:
                failures.append(line)
        if done.returncode or len(ended) < len(some):
            failures.append({"crash": lines[-1:], "status": done.returncode, "stderr": done.stderr[-1500:]})
    return {"outcomes": dict(outcomes), "slowest": slowest, "largest": largest, "failures": failures}


def main(name, makers, description):
    """The command of a fuzzer; by kind, what makes cases without end from a seed, expected outcomes, and a number."""
    parser = argparse.ArgumentParser(description=description)
    for kind, (_, _, number) in makers.items():
        parser.add_argument(f"--{kind}", type=int, default=number)
    parser.add_argument("--seed", type=int, default=0)
    given, failed = parser.parse_args(), False
    for kind, (make, expected, _) in makers.items():
        found = run(name, islice(make(given.seed), getattr(given, kind)), expected)
        print(f"{kind}: {found['outcomes']}, slowest {found['slowest']:.2f} s, largest {found['largest'] >> 20} MB")
        for failure in found["failures"][:20]:
            print("  failed:", failure)
        failed |= bool(found["failures"])
    sys.exit(failed)


if __name__ == "__main__":
    child(*sys.argv[2:])
