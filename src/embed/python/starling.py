"""A peer in a Python program, which trains as it likes: starling/peer.hpp over ctypes.

    peer = starling.Peer("swarm.toml", initial, samples=60_000)
    for step in peer:
        step.done(train(peer.parameters, step.samples, step.learning_rate))
    peer.read()  # the parameters that the swarm has agreed on

With PyTorch, whose optimizers stay as they are:

    peer = starling.for_module("swarm.toml", model, samples=len(train_set))
    for step in peer:
        for group in optimizer.param_groups:
            group["lr"] = step.learning_rate
        loss = loss_of(model, train_set, step.samples)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step.done(loss.item())

Only the standard library is needed, and PyTorch if for_module is called. The library is
libstarling.so as the loader finds it, or the file named in STARLING_LIBRARY. Other threads of
the program run while a peer exchanges or waits; Ctrl-C is heard between two steps.
"""

import ctypes
import os
import threading
import weakref
from ctypes import (POINTER, byref, c_char_p, c_double, c_float, c_int, c_size_t, c_uint32,
                    c_uint64, c_void_p)

KINDS = ("internal", "usage", "run_file", "data", "unreachable", "diverged", "device", "network",
         "out_of_turn")


class Error(Exception):
    """An error, with a text for the user; `kind` is one of KINDS."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class _Tensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("shape", POINTER(c_uint32)), ("rank", c_size_t)]


_EVALUATE = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_uint32, POINTER(c_double),
                             POINTER(c_double))


class _Options(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("run_file", c_char_p), ("set", POINTER(c_char_p)),
                ("parameters", POINTER(c_float)), ("parameter_count", c_size_t),
                ("tensors", POINTER(_Tensor)), ("tensor_count", c_size_t),
                ("buffers", POINTER(_Tensor)), ("buffer_values", POINTER(c_float)),
                ("buffer_value_count", c_size_t), ("buffer_never_negative", POINTER(c_int)),
                ("buffer_count", c_size_t),
                ("samples", c_uint32), ("dataset", c_char_p), ("evaluate", _EVALUATE),
                ("context", c_void_p), ("join", POINTER(c_char_p)), ("listen", c_char_p),
                ("name", c_char_p), ("dir", c_char_p), ("lan", c_int), ("require_peers", c_int),
                ("quiet", c_int), ("proxy", c_char_p), ("no_port_mapping", c_int),
                ("announce", POINTER(c_char_p))]


class _Step(ctypes.Structure):
    _fields_ = [("number", c_uint64), ("learning_rate", c_float), ("sample_count", c_uint32),
                ("samples", POINTER(c_uint32))]


class Summary(ctypes.Structure):
    """How a run ended for this peer; `left`: before the run was over."""

    _fields_ = [("left", c_int), ("steps", c_uint64), ("samples", c_uint64),
                ("exchanges", c_uint64), ("bytes_sent", c_uint64), ("bytes_received", c_uint64)]


def _load():
    try:
        library = ctypes.CDLL(os.environ.get("STARLING_LIBRARY", "libstarling.so.0"))
    except OSError as problem:
        raise Error("usage", f"{problem}; STARLING_LIBRARY names the file, where it is not "
                    "installed: build/src/embed/libstarling.so") from None
    for name, result, arguments in (
            ("starling_peer_open", c_void_p, [POINTER(_Options)]),
            ("starling_peer_close", None, [c_void_p]),
            ("starling_peer_address", c_char_p, [c_void_p]),
            ("starling_peer_dir", c_char_p, [c_void_p]),
            ("starling_peer_resumed", c_int, [c_void_p]),
            ("starling_peer_parameters", c_void_p, [c_void_p]),
            ("starling_peer_buffers", c_void_p, [c_void_p]),
            ("starling_peer_read", c_int, [c_void_p, POINTER(c_float)]),
            ("starling_peer_next_step", c_int, [c_void_p, POINTER(_Step)]),
            ("starling_peer_step_done", c_int, [c_void_p, c_float]),
            ("starling_peer_leave", None, [c_void_p]),
            ("starling_peer_summary", c_int, [c_void_p, POINTER(Summary)]),
            ("starling_last_error", c_char_p, []),
            ("starling_last_error_kind", c_int, [])):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _texts(values):
    """Of several texts; one stands for itself."""
    if isinstance(values, (str, bytes)):
        values = (values,)
    return (c_char_p * (len(values) + 1))(*(os.fsencode(value) for value in values), None)


def _uint32(value, what):
    """The number for C: ctypes would cut it off."""
    if not 0 <= value < 2**32:
        raise Error("usage", f"{what}: is {value}, from 0 to {2**32 - 1} are accepted")
    return value


def _tensors(named_shapes):
    """Of pairs of a name and a shape."""
    return (_Tensor * len(named_shapes))(*(
        _Tensor(name.encode(), (c_uint32 * len(shape))(*(_uint32(side, name) for side in shape)),
                len(shape))
        for name, shape in named_shapes))


def _copied(values):
    """Floats of a buffer of float32, such as an array("f") or NumPy's, or of any sequence."""
    try:
        view = memoryview(values)
    except TypeError:
        return (c_float * len(values))(*values)
    if view.format not in ("f", "<f"):
        raise Error("usage", f"floats must be float32, not of the format {view.format}")
    return (c_float * (view.nbytes // 4)).from_buffer_copy(view.cast("B"))


def _view(address, count, owner=None):
    """The floats there, for changes in place. `owner` lives as long as the view."""
    there = (c_float * count).from_address(address) if count else (c_float * 0)()
    there.owner = owner
    return memoryview(there).cast("B").cast("f")


class Step:
    """A step that is due: `number`, `learning_rate`, and `samples`, the numbers to train on."""

    def __init__(self, peer, due):
        self.number = due.number
        self.learning_rate = due.learning_rate
        self.samples = due.samples[:due.sample_count]
        self._peer = peer

    def done(self, loss):
        """Reports that the step was made, with the mean loss of its samples in nats."""
        self._peer._step_done(loss)


class Peer:
    """One peer of a swarm: iterating gives the due steps, until the run has ended.

    `parameters`: the initial floats of the run, the same at every peer. `tensors`: names and
    shapes of their parts, in order. `buffers`: of (name, shape, floats, never_negative), the same
    at every peer, too.
    `evaluate(parameters, buffers, samples)` gives accuracy and loss. `set`, `join`, `announce`:
    strings, or lists of them. Everything else is as in starling/peer.hpp. One thread, except for
    leave(), which a signal handler may call, too. A child of os.fork() cannot use a peer, and its
    end does not touch the peer.
    """

    _peer = None  # of the class: __del__ also runs after a wrong call of Peer()

    def __init__(self, run_file, parameters, *, samples, tensors=(), buffers=(), dataset="",
                 evaluate=None, set=(), join=(), listen="[::]:0", name="", dir="", lan=False,
                 require_peers=False, quiet=False, proxy="", port_mapping=True, announce=()):
        self._closing = threading.RLock()  # a signal's handler may come in where it is held
        self._library = _load()
        self._failure = None
        parameters = _copied(parameters)
        values = [_copied(floats) for _, _, floats, _ in buffers]
        self._count = len(parameters)
        self._buffer_count = sum(len(floats) for floats in values)
        self._evaluate = _EVALUATE(_evaluation(evaluate, weakref.ref(self))) if evaluate \
            else _EVALUATE()
        options = _Options(
            struct_size=ctypes.sizeof(_Options), run_file=os.fsencode(run_file), set=_texts(set),
            parameters=parameters, parameter_count=self._count,
            tensors=_tensors(tensors), tensor_count=len(tensors),
            buffers=_tensors([buffer[:2] for buffer in buffers]),
            buffer_values=_copied(memoryview(b"".join(values)).cast("f")),
            buffer_value_count=self._buffer_count,
            buffer_never_negative=(c_int * len(buffers))(*(never for *_, never in buffers)),
            buffer_count=len(buffers), samples=_uint32(samples, "samples"),
            dataset=dataset.encode(), evaluate=self._evaluate,
            join=_texts(join), listen=listen.encode(), name=name.encode(), dir=os.fsencode(dir),
            lan=lan, require_peers=require_peers, quiet=quiet, proxy=proxy.encode(),
            no_port_mapping=not port_mapping, announce=_texts(announce))
        self._peer = self._library.starling_peer_open(byref(options))
        if not self._peer:
            self._fail()

    def __del__(self):
        if self._peer:
            self.close()

    def close(self):
        """Ends the peer at once, unless it has ended: no checkpoint, but a goodbye."""
        with self._closing:
            peer, self._peer = self._peer, None
        if peer:
            self._library.starling_peer_close(peer)

    @property
    def _open(self):
        if not self._peer:
            raise Error("out_of_turn", "the peer is closed")
        return self._peer

    @property
    def address(self):
        return self._library.starling_peer_address(self._open).decode()

    @property
    def dir(self):
        return os.fsdecode(self._library.starling_peer_dir(self._open))

    @property
    def resumed(self):
        return self._library.starling_peer_resumed(self._open) != 0

    @property
    def parameters(self):
        """A view of floats, for changes in place; valid until the peer is closed."""
        return _view(self._library.starling_peer_parameters(self._open), self._count, self)

    @property
    def buffers(self):
        return _view(self._library.starling_peer_buffers(self._open), self._buffer_count, self)

    def read(self):
        """The parameters that the swarm agrees on, as an array of floats."""
        out = (c_float * self._count)()
        self._check(self._library.starling_peer_read(self._open, out))
        return memoryview(out).cast("B").cast("f")

    def __iter__(self):
        due = _Step()
        while self._check(self._library.starling_peer_next_step(self._open, byref(due))) == 1:
            yield Step(self, due)

    def leave(self):
        """Asks the peer to save, say goodbye and end: the steps come to an end. Any thread."""
        with self._closing:  # it would be freed meanwhile
            self._library.starling_peer_leave(self._open)

    @property
    def summary(self):
        made = Summary()
        self._check(self._library.starling_peer_summary(self._open, byref(made)))
        return made

    def _step_done(self, loss):
        self._check(self._library.starling_peer_step_done(self._open, loss))

    def _check(self, result):
        if result < 0:
            self._fail(result)
        return result

    def _fail(self, result=None):
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if result is None:
            result = self._library.starling_last_error_kind()
        raise Error(KINDS[-1 - result], self._library.starling_last_error().decode())


def _evaluation(evaluate, peer):
    """`evaluate` for C. Its exceptions are raised again where the call came from."""
    def call(_, parameters, buffers, samples, accuracy, loss):
        try:
            accuracy[0], loss[0] = evaluate(_view(parameters, peer()._count),
                                            _view(buffers, peer()._buffer_count), samples)
            return 0
        except BaseException as failure:  # it must not pass through C
            peer()._failure = failure
            return 1
    return call


def for_module(run_file, module, *, evaluate=None, **options):
    """A peer that trains a torch.nn.Module: its parameters, and its persistent buffers that are
    floats. Of tied parameters, the first name counts.

    On the processor, they lie in the peer's memory while it is iterated, so that nothing is
    copied; those on a GPU, or in another memory layout, are copied before and after each step.
    Afterwards the module has the parameters that the swarm agrees on. `evaluate(module)` gives accuracy and loss; it is
    called with the parameters that the swarm agrees on, in evaluation mode and without gradients.
    The rest is as for Peer.
    """
    import torch

    parameters = list(module.named_parameters())
    kept = module.state_dict()  # a checkpoint is one: without buffers that are not persistent
    buffers = [(name, buffer) for name, buffer in module.named_buffers()
               if name in kept and buffer.is_floating_point()]
    tensors = [tensor for _, tensor in parameters + buffers]
    if any(tensor.dtype != torch.float32 for tensor in tensors):
        raise Error("usage", "for_module: parameters and buffers must be float32")

    def floats(some):
        flat = torch.cat([tensor.detach().flatten().cpu() for _, tensor in some])
        return _view(flat.data_ptr(), flat.numel(), flat)

    def parts(parameter_values, buffer_values):
        """Each tensor's part of these."""
        found = []
        for values, some in ((parameter_values, parameters), (buffer_values, buffers)):
            if some:
                whole = torch.frombuffer(values, dtype=torch.float32)
                sizes = [tensor.numel() for _, tensor in some]
                found += [part.view(tensor.shape)
                          for part, (_, tensor) in zip(whole.split(sizes), some)]
        return found

    def put(values):
        for tensor, value in zip(tensors, values):
            if tensor.device == value.device and tensor.stride() == value.stride():
                tensor.data = value
            else:
                tensor.data.copy_(value)

    def evaluate_module(parameter_values, buffer_values, _):
        own = [tensor.data for tensor in tensors]
        modes = [(part, part.training) for part in module.modules()]
        try:
            put(parts(parameter_values, buffer_values))
            module.eval()
            with torch.no_grad():
                return evaluate(module)
        finally:
            for part, training in modes:  # the program may have frozen some
                part.training = training
            put(own)

    class ModulePeer(Peer):
        _there = ()  # where the peer has each tensor, as long as the module looks at it

        def __iter__(self):
            self._there = parts(self.parameters, self.buffers)
            try:
                for step in super().__iter__():
                    put(self._there)
                    yield step
                put(parts(self.read(), self.buffers))
            finally:
                self._take_back()

        def close(self):
            self._take_back()
            super().close()

        def _take_back(self):
            """Leaves the module with copies: the peer's memory is freed with it."""
            if self._there:
                self._there = ()
                for tensor in tensors:
                    tensor.data = tensor.data.clone()

        def _step_done(self, loss):
            for tensor, there in zip(tensors, self._there):
                if tensor.data_ptr() != there.data_ptr():
                    there.copy_(tensor.data)
            super()._step_done(loss)

    return ModulePeer(
        run_file, floats(parameters),
        tensors=[(name, tensor.shape) for name, tensor in parameters],
        buffers=[(name, buffer.shape, floats([(name, buffer)]), name.endswith("running_var"))
                 for name, buffer in buffers],
        evaluate=evaluate_module if evaluate else None, **options)
