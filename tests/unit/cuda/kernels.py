#!/usr/bin/python3
"""Checks nvcc's code for the kernels whose bits both ends of a link must share. Ends with "N passed,
N failed", counted in kernels.

    kernels.py NVCC SOURCE_ROOT PART.cu...

In PTX, `mul.rn` stays a product, while the next compiler may fuse `mul` with a sum; `fma` is
fused already. The processor fuses nothing.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

SHARED = re.compile(r"(AddDelta|CommitLinks|CommitTouched|CommitAll|CommitPut|SampleDifference|FindLargest|TakeChosen|"
                    r"FitScales|PackValues|UnpackValues|ReleaseSent|Release)(?:I([ft])E)?")
# Each for mirrors in float32 and bfloat16, TakeChosen also for the found elements; and those without mirrors, CommitLinks for 1,
# 2, 4 and 8 links.
KERNELS = 2 * 6 + 1 + 10


def entries(ptx):
    """(name, text) of each kernel."""
    parts = re.split(r"\.entry (\w+)\(", ptx)
    return zip(parts[1::2], parts[2::2])


def main():
    nvcc, root, *parts = sys.argv[1:]
    ptx = ""
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder, "part.ptx")
        for part in parts:
            subprocess.run([nvcc, "-ptx", "-std=c++20", "--expt-relaxed-constexpr",
                            "-arch=compute_90", f"-I{root}/src", "-o", made, part], check=True)
            ptx += made.read_text()
    passed = failed = 0
    for name, text in entries(ptx):
        found = SHARED.search(name)
        if not found:
            continue
        fused = re.findall(r"\bfma\.\S*f32|\bmul\.f32|\bmul\.ftz\S*f32|\bmad\.\S*f32", text)
        if fused:
            print(f"{found.group()}: {', '.join(sorted(set(fused)))}")
        passed += not fused
        failed += bool(fused)
    if passed + failed != KERNELS:
        print(f"{passed + failed} kernels were looked at, and {KERNELS} expected")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
