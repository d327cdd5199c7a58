"""The rate of an array from one host of a lab to all others, beside the program's of a file of as many bytes.

    cargo build --release -p ethbcast -p ethbcast-python && pip install ./collectives/python
    python3 collectives/python/benches/rate.py --mebibytes 1024

as root. All take turns, several rounds of them; each figure is the median of the rounds'. Files lie in memory; arrays
are made anew for each transfer, and compared with the file on all hosts.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HOSTS = 4


def on_host(arguments):
    """What a host does in a round; rank 0 prints the seconds."""
    import ethbcast
    import numpy as np

    way, path, length, rank = arguments.role, arguments.file, arguments.mebibytes << 20, int(arguments.rank)
    array = np.fromfile(path, dtype=np.float64) if rank == 0 else np.empty(length // 8)
    if way == "broadcast":
        with ethbcast.Communicator.join("rate", HOSTS) as ranks:
            ranks.barrier()
            began = time.perf_counter()
            ranks.broadcast(array)
            ranks.barrier()
            seconds = time.perf_counter() - began
    elif rank == 0:
        seconds = ethbcast.send(array, "rate", receivers=HOSTS - 1).seconds
    else:
        seconds = ethbcast.recv("rate", array, max_wait=60).seconds
    assert rank == 0 or np.array_equal(array.view(np.uint64), np.memmap(path, dtype=np.uint64, mode="r"))
    if rank == 0:
        print(seconds)


def program(run, file, directory):
    """The program's seconds for the file."""
    receivers = [run(host, "recv", "--quiet", "--force", str(directory / f"n{host}")) for host in range(1, HOSTS)]
    sent = run(0, "send", "--quiet", "--json", "-n", str(HOSTS - 1), str(file)).communicate()[0]
    for receiver in receivers:
        assert receiver.wait() == 0
    for host in range(1, HOSTS):
        (directory / f"n{host}").unlink()
    return json.loads(sent)["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ethbcast", default="target/release/ethbcast", help="the program")
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        return on_host(arguments)

    lab = f"rate{os.getpid()}"
    exec_on = [os.path.abspath(arguments.ethbcast), "lab", "exec", "--lab", lab]
    start = lambda host, *words: subprocess.Popen([*exec_on, f"n{host}", "--", *words], stdout=subprocess.PIPE)
    subprocess.run([arguments.ethbcast, "lab", "up", str(HOSTS), "--lab", lab], check=True, stdout=subprocess.DEVNULL)
    try:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
            measure(arguments, start, pathlib.Path(directory))
    finally:
        subprocess.run([arguments.ethbcast, "lab", "down", "--lab", lab], check=True, stdout=subprocess.DEVNULL)


def measure(arguments, start, directory):
    file = directory / "source"
    with open(file, "wb") as source:
        for _ in range(arguments.mebibytes):
            source.write(os.urandom(1 << 20))

    def python(way):
        words = [sys.executable, __file__, "--role", way, "--file", str(file), "--mebibytes", str(arguments.mebibytes)]
        runs = [start(host, *words, "--rank", str(host)) for host in range(HOSTS)]
        said = [run.communicate()[0] for run in runs]
        assert all(run.returncode == 0 for run in runs), "a host has failed"
        return float(said[0])

    own = lambda host, *words: start(host, os.path.abspath(arguments.ethbcast), *words)
    ways = {
        "ethbcast send and recv, files": lambda: program(own, file, directory),
        "ethbcast.send and recv, arrays": lambda: python("session"),
        "Communicator.broadcast, arrays": lambda: python("broadcast"),
    }
    seconds = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, way in ways.items():
            seconds[name].append(way())
    tool = None
    for name, all_seconds in seconds.items():
        rate = (arguments.mebibytes << 23) / statistics.median(all_seconds) / 1e9
        tool = tool or rate
        print(f"{name:32} {rate:6.2f} Gbit/s  {rate / tool:5.2f} x   ({', '.join(f'{s:.2f} s' for s in all_seconds)})")


if __name__ == "__main__":
    main()
