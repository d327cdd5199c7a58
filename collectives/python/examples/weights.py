"""The tensors of a safetensors file that the first host has, on all hosts: weights.py GROUP HOSTS FILE."""

import json
import os
import sys

import ethbcast
import numpy as np

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1", "BOOL": "?"}


def tensors(file):
    """The tensors in the memory of a file: nothing is copied."""
    header_bytes = int(file[:8].view("<u8")[0])
    header = json.loads(file[8 : 8 + header_bytes].tobytes())
    header.pop("__metadata__", None)
    data = file[8 + header_bytes :]
    of = {name: data[slice(*one["data_offsets"])].view(TYPES[one["dtype"]]) for name, one in header.items()}
    return {name: tensor.reshape(header[name]["shape"]) for name, tensor in of.items()}


group, hosts, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with ethbcast.Communicator.join(group, hosts) as ranks:
    is_first = ranks.rank == 0
    length = np.array([os.path.getsize(path) if is_first else 0])
    ranks.broadcast(length)
    file = np.fromfile(path, dtype=np.uint8) if is_first else np.empty(length[0], dtype=np.uint8)
    ranks.broadcast(file)

for name, tensor in tensors(file).items():
    print(f"{ranks.host}: {name} {tensor.dtype} {tensor.shape}, sum {tensor.sum():g}")
