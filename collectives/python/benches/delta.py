"""The bytes and the time of an array of which a hundredth has changed, from one host of a lab to all others that hold
the last version, beside the whole array's.

    cargo build --release -p ethbcast -p ethbcast-python && pip install ./collectives/python
    python3 collectives/python/benches/delta.py --mebibytes 256 --rate 100mbit

as root.
"""

import argparse
import os
import pathlib
import subprocess
import sys

HOSTS, LAB = 8, "ethbcast-lab-"
PROGRAM = pathlib.Path(__file__).resolve().parents[3] / "target/release/ethbcast"
FORMS = [("delta", {"delta": True}), ("whole", {})]


def play(host, mebibytes):
    import ethbcast
    import numpy

    held = numpy.random.default_rng(7).integers(0, 256, mebibytes << 20, dtype=numpy.uint8)
    new, at = held.copy(), held.size // 3
    new[at : at + held.size // 100] ^= 1
    for name, options in FORMS:
        if host > 0:
            ethbcast.recv(name, held, max_wait=120, **options)
            assert (held == new).all(), f"{name}: other bytes arrived at n{host}"
            continue
        report = ethbcast.send(new, name, receivers=HOSTS - 1, max_wait=120, **options)
        travelled = report.travelled if report.travelled is not None else report.bytes
        print(f"{name}: {travelled / report.bytes:.4f} of the bytes, {report.seconds:.2f} s by {report.via}", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--mebibytes", type=int, default=256)
    options.add_argument("--rate", default="100mbit")
    options.add_argument("--host", type=int, help=argparse.SUPPRESS)
    options = options.parse_args()
    if options.host is not None:
        return play(options.host, options.mebibytes)
    subprocess.run([PROGRAM, "lab", "up", str(HOSTS), "--rate", options.rate], check=True)
    try:
        words = [sys.executable, __file__, "--mebibytes", str(options.mebibytes), "--host"]
        inside = lambda host: ["ip", "netns", "exec", f"{LAB}n{host}", *words, str(host)]
        runs = [subprocess.Popen(inside(host), env={**os.environ, "ETHBCAST_HOST": f"n{host}"}) for host in range(HOSTS)]
        sys.exit(max(run.wait() for run in runs))
    finally:
        subprocess.run([PROGRAM, "lab", "down"], check=True)


if __name__ == "__main__":
    main()
