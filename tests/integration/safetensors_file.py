"""safetensors files, read and written with only Python's standard library."""
import json
import math
import struct
from array import array

WIDTH = {"F32": 4, "I64": 8}


def read(path):
    """Metadata, and by name (type, shape, bytes); every byte of the file belongs to something."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    metadata = header.pop("__metadata__", {})
    tensors = {}
    position = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        if begin != position or end - begin != math.prod(entry["shape"]) * WIDTH[entry["dtype"]]:
            raise ValueError(f"{path}: {name} has a wrong place or size")
        tensors[name] = entry["dtype"], entry["shape"], data[begin:end]
        position = end
    if position != len(data):
        raise ValueError(f"{path}: {len(data) - position} bytes belong to no tensor")
    return metadata, tensors


def write(path, tensors):
    """`tensors`: by name (shape, floats)."""
    header, data = {}, bytearray()
    for name, (shape, values) in tensors.items():
        begin = len(data)
        data += array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
