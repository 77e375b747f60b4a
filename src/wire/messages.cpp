#include "wire/messages.hpp"

#include <iterator>
#include <type_traits>
#include <utility>

#include <flatbuffers/flatbuffers.h>

#include "frames_generated.h"
#include "wire/delta_head.hpp"
#include "wire/fields.hpp"
#include "wire/rules.hpp"
#include "wire/table_reader.hpp"
#include "wire/table_writer.hpp"

namespace starling::wire {
namespace {

using Decoded = base::Result<std::optional<Message>>;

// Nesting of our tables is at most 3, members at most kMembersPerGossip with kAddressesMax each.
constexpr std::size_t kDepthMax = 8;
constexpr std::size_t kTablesMax = 256;

/// The place in a message of the bytes after the metadata; null: it has none.
template <class Bytes>
struct Bulk {
  Bytes* payload = nullptr;
  Bytes* tail = nullptr;
};

template <class Message>
auto bulk_of(Message& message) {
  Bulk<std::conditional_t<std::is_const_v<Message>, const base::Bytes, base::Bytes>> bulk;
  fields(message, [&]<class Rule>(const char*, auto& value, const Rule&) {
    if constexpr (std::is_same_v<Rule, Payload>) bulk.payload = &value;
    if constexpr (std::is_same_v<Rule, Tail>) bulk.tail = &value;
  });
  return bulk;
}

base::ByteView view_of(const base::Bytes* bytes) {
  return bytes == nullptr ? base::ByteView{} : base::ByteView(*bytes);
}

template <class Message>
base::Bytes frame_of(FrameType type, const Message& message) {
  const auto bulk = bulk_of(message);
  const auto frame = [&](base::ByteView metadata) {
    return make_frame(type, metadata, view_of(bulk.payload), view_of(bulk.tail));
  };
  if constexpr (std::is_same_v<Message, Delta>) {
    const std::vector<std::uint8_t> head = pack_head(message);
    return frame(std::as_bytes(std::span(head)));
  } else {
    flatbuffers::FlatBufferBuilder builder(256);
    builder.Finish(write_table(builder, message));
    return frame(std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())));
  }
}

template <class... Args>
tl::unexpected<base::Error> bad(fmt::format_string<Args...> format, Args&&... args) {
  return base::fail(base::ErrorCode::protocol, format, std::forward<Args>(args)...);
}

/// Moves the frame's payload to its place in the message; its last `tail_bytes` are the tail.
base::Status take_bulk(Frame& frame, std::uint64_t tail_bytes, Bulk<base::Bytes> bulk) {
  if (bulk.payload == nullptr) return {};
  base::Bytes& payload = *bulk.payload = std::move(frame.bytes);
  payload.erase(payload.begin(),
                payload.begin() + static_cast<std::ptrdiff_t>(frame.metadata_size));
  if (tail_bytes > payload.size() || tail_bytes % sizeof(float) != 0) {
    return bad("a payload of {} bytes cannot end with {} bytes of buffers", payload.size(),
               tail_bytes);
  }
  if (bulk.tail == nullptr) return {};
  const auto at = payload.end() - static_cast<std::ptrdiff_t>(tail_bytes);
  bulk.tail->assign(at, payload.end());
  payload.erase(at, payload.end());
  return {};
}

template <class Message>
Decoded finish(Frame& frame, std::uint64_t tail_bytes, Message message) {
  base::Status status = take_bulk(frame, tail_bytes, bulk_of(message));
  if (status) status = check(message);
  if (!status) return base::fail(std::move(status.error()));
  return wire::Message(std::move(message));
}

/// `Table`: flatc's class for the message's table. Its verifier checks every offset and size.
template <class Message, class Table>
Decoded read(Frame& frame) {
  const base::ByteView metadata = frame.metadata();
  const auto* data = reinterpret_cast<const std::uint8_t*>(metadata.data());
  flatbuffers::Verifier verifier(data, metadata.size(), kDepthMax, kTablesMax);
  if (!verifier.VerifyBuffer<Table>(nullptr)) {
    return bad("the metadata of a frame of type {} is malformed", frame.type);
  }
  Message message;
  TableReader reader(*flatbuffers::GetRoot<flatbuffers::Table>(data));
  fields(message, reader);
  if (!reader.status()) return base::fail(reader.status().error());
  return finish(frame, reader.tail_bytes(), std::move(message));
}

/// The one type of frame without FlatBuffers: wire/delta_head.hpp.
Decoded read_delta(Frame& frame) {
  const base::ByteView metadata = frame.metadata();
  auto head =
      unpack_head({reinterpret_cast<const std::uint8_t*>(metadata.data()), metadata.size()});
  if (!head) return base::fail(std::move(head.error()));
  return finish(frame, head->buffer_bytes, std::move(head->delta));
}

}  // namespace

FrameType type_of(const Message& message) noexcept {
  // In the order of Message's alternatives.
  constexpr FrameType kTypes[] = {FrameType::hello,          FrameType::refuse,
                                  FrameType::neighbour,      FrameType::gossip,
                                  FrameType::heartbeat,      FrameType::link_open,
                                  FrameType::keyframe,       FrameType::delta,
                                  FrameType::reduce,         FrameType::bye,
                                  FrameType::reconcile,      FrameType::run_file_request,
                                  FrameType::run_file_reply, FrameType::reduce_received,
                                  FrameType::dial_back,      FrameType::dialed_back,
                                  FrameType::introduce,      FrameType::circuit_call,
                                  FrameType::settle};
  static_assert(std::size(kTypes) == std::variant_size_v<Message>);
  return kTypes[message.index()];
}

base::Bytes encode(const Message& message) {
  return std::visit([&](const auto& value) { return frame_of(type_of(message), value); }, message);
}

Decoded decode(Frame&& frame) {
  switch (static_cast<FrameType>(frame.type)) {
    case FrameType::hello:
      return read<Hello, fb::Hello>(frame);
    case FrameType::refuse:
      return read<Refuse, fb::Refuse>(frame);
    case FrameType::neighbour:
      return read<Neighbour, fb::Neighbour>(frame);
    case FrameType::gossip:
      return read<Gossip, fb::Gossip>(frame);
    case FrameType::heartbeat:
      return read<Heartbeat, fb::Heartbeat>(frame);
    case FrameType::link_open:
      return read<LinkOpen, fb::LinkOpen>(frame);
    case FrameType::settle:
      return read<Settle, fb::Settle>(frame);
    case FrameType::keyframe:
      return read<Keyframe, fb::Keyframe>(frame);
    case FrameType::delta:
      return read_delta(frame);
    case FrameType::reduce:
      return read<Reduce, fb::Reduce>(frame);
    case FrameType::bye:
      return read<Bye, fb::Bye>(frame);
    case FrameType::reconcile:
      return read<Reconcile, fb::Reconcile>(frame);
    case FrameType::run_file_request:
      return read<RunFileRequest, fb::RunFileRequest>(frame);
    case FrameType::run_file_reply:
      return read<RunFileReply, fb::RunFileReply>(frame);
    case FrameType::reduce_received:
      return read<ReduceReceived, fb::ReduceReceived>(frame);
    case FrameType::dial_back:
      return read<DialBack, fb::DialBack>(frame);
    case FrameType::dialed_back:
      return read<DialedBack, fb::DialedBack>(frame);
    case FrameType::introduce:
      return read<Introduce, fb::Introduce>(frame);
    case FrameType::circuit_call:
      return read<Circuit, fb::Circuit>(frame);
    case FrameType::circuit:
      break;
  }
  return std::nullopt;
}

}  // namespace starling::wire
