// starling/peer.h: calls of C, each handed to a starling::Peer.
#include <cstring>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "starling/peer.h"
#include "starling/peer.hpp"

struct starling_peer {
  starling::Peer peer;
  std::size_t parameter_count;
};

namespace starling::embed {
namespace {

static_assert(STARLING_INTERNAL == -1 - static_cast<int>(ErrorKind::internal));
static_assert(STARLING_NETWORK == -1 - static_cast<int>(ErrorKind::network));

thread_local std::string last_error;
thread_local int last_kind = 0;

int failed(int kind, const char* text) {
  last_kind = kind;
  last_error = text;
  return kind;
}

/// The call's result, or the status that stands for its exception: exceptions never cross into C.
template <class Call>
int guarded(Call&& call) noexcept {
  try {
    return call();
  } catch (const Error& error) {
    return failed(-1 - static_cast<int>(error.kind()), error.what());
  } catch (const std::logic_error& error) {
    return failed(STARLING_OUT_OF_TURN, error.what());
  } catch (const std::exception& error) {
    return failed(STARLING_INTERNAL, error.what());
  }
}

std::string text(const char* value, const char* otherwise = "") {
  return value == nullptr ? otherwise : value;
}

std::vector<std::string> texts(const char* const* values) {
  std::vector<std::string> made;
  for (; values != nullptr && *values != nullptr; ++values) made.emplace_back(*values);
  return made;
}

Tensor tensor(const starling_tensor& tensor) {
  return {text(tensor.name), {tensor.shape, tensor.shape + tensor.rank}};
}

/// Takes a tensor's values from the front of those that are left.
std::vector<float> take(std::span<const float>& left, const Tensor& tensor) {
  const auto too_many = [&] {
    return Error(ErrorKind::usage, fmt::format("buffers: '{}' has more values than the {} left",
                                               tensor.name, left.size()));
  };
  std::size_t size = 1;
  for (const std::uint32_t side : tensor.shape) {
    if (side != 0 && size > left.size() / side) throw too_many();
    size *= side;
  }
  if (size > left.size()) throw too_many();  // a shape without sides has one value
  const auto own = left.first(size);
  left = left.subspan(size);
  return {own.begin(), own.end()};
}

std::vector<Buffer> buffers(const starling_options& options) {
  std::vector<Buffer> made;
  std::span left(options.buffer_values, options.buffer_value_count);
  for (std::size_t i = 0; i < options.buffer_count; ++i) {
    Buffer buffer{.tensor = tensor(options.buffers[i])};
    buffer.initial = take(left, buffer.tensor);
    buffer.never_negative =
        options.buffer_never_negative != nullptr && options.buffer_never_negative[i] != 0;
    made.push_back(std::move(buffer));
  }
  if (!left.empty()) {
    throw Error(ErrorKind::usage,
                fmt::format("buffers: {} values more than their shapes have", left.size()));
  }
  return made;
}

Evaluate evaluate(const starling_options& options) {
  if (options.evaluate == nullptr) return {};
  return [call = options.evaluate, context = options.context](std::span<const float> parameters,
                                                              std::span<const float> buffers,
                                                              std::uint32_t samples) {
    Evaluation made;
    if (call(context, parameters.data(), buffers.data(), samples, &made.accuracy, &made.loss) !=
        0) {
      throw std::runtime_error("the program's evaluation failed");
    }
    return made;
  };
}

/// Options of a program that may have been compiled against an older header, which had fewer.
starling_options whole(const starling_options& given) {
  starling_options made{};
  if (given.struct_size < sizeof given.struct_size || given.struct_size > sizeof made) {
    throw Error(ErrorKind::usage,
                fmt::format("options: struct_size is {}, and this library knows {} bytes: begin "
                            "with starling_options_init, of a header that is not newer",
                            given.struct_size, sizeof made));
  }
  std::memcpy(&made, &given, given.struct_size);
  return made;
}

PeerOptions peer_options(const starling_options& options) {
  PeerOptions made{.run_file = text(options.run_file),
                   .set = texts(options.set),
                   .parameters = {options.parameters, options.parameters + options.parameter_count},
                   .buffers = buffers(options),
                   .samples = options.samples,
                   .dataset = text(options.dataset),
                   .evaluate = evaluate(options),
                   .join = texts(options.join),
                   .listen = text(options.listen, "[::]:0"),
                   .announce = texts(options.announce),
                   .lan = options.lan != 0,
                   .name = text(options.name),
                   .dir = text(options.dir),
                   .require_peers = options.require_peers != 0,
                   .quiet = options.quiet != 0,
                   .proxy = text(options.proxy),
                   .port_mapping = options.no_port_mapping == 0};
  for (std::size_t i = 0; i < options.tensor_count; ++i) {
    made.tensors.push_back(tensor(options.tensors[i]));
  }
  return made;
}

}  // namespace
}  // namespace starling::embed

using starling::embed::guarded;

starling_peer* starling_peer_open(const starling_options* options) {
  starling_peer* opened = nullptr;
  static_cast<void>(guarded([&] {
    const starling_options whole = starling::embed::whole(*options);
    opened = new starling_peer{starling::Peer(starling::embed::peer_options(whole)),
                               whole.parameter_count};
    return 0;
  }));
  return opened;
}

void starling_peer_close(starling_peer* peer) { delete peer; }

const char* starling_peer_address(const starling_peer* peer) {
  return peer->peer.address().c_str();
}

const char* starling_peer_dir(const starling_peer* peer) { return peer->peer.dir().c_str(); }

int starling_peer_resumed(const starling_peer* peer) { return peer->peer.resumed() ? 1 : 0; }

float* starling_peer_parameters(starling_peer* peer) { return peer->peer.parameters().data(); }

float* starling_peer_buffers(starling_peer* peer) { return peer->peer.buffers().data(); }

int starling_peer_read(const starling_peer* peer, float* out) {
  return guarded([&] {
    peer->peer.read({out, peer->parameter_count});
    return 0;
  });
}

int starling_peer_next_step(starling_peer* peer, starling_step* step) {
  return guarded([&] {
    const auto due = peer->peer.next_step();
    if (!due) return 0;
    *step = {.number = due->number,
             .learning_rate = due->learning_rate,
             .sample_count = static_cast<std::uint32_t>(due->samples.size()),
             .samples = due->samples.data()};
    return 1;
  });
}

int starling_peer_step_done(starling_peer* peer, float loss) {
  return guarded([&] {
    peer->peer.step_done(loss);
    return 0;
  });
}

void starling_peer_leave(starling_peer* peer) { peer->peer.leave(); }

int starling_peer_summary(const starling_peer* peer, starling_summary* summary) {
  return guarded([&] {
    const starling::Summary made = peer->peer.summary();
    *summary = {.left = made.left ? 1 : 0,
                .steps = made.steps,
                .samples = made.samples,
                .exchanges = made.exchanges,
                .bytes_sent = made.bytes_sent,
                .bytes_received = made.bytes_received};
    return 0;
  });
}

const char* starling_last_error(void) { return starling::embed::last_error.c_str(); }

int starling_last_error_kind(void) { return starling::embed::last_kind; }
