// Writes a message's fields as a table of FlatBuffers, like the functions that flatc generates.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <flatbuffers/flatbuffers.h>

#include "base/assert.hpp"
#include "wire/fields.hpp"
#include "wire/progress.hpp"
#include "wire/struct_bytes.hpp"

namespace starling::wire {

using TableOffset = flatbuffers::Offset<flatbuffers::Table>;

/// The place of a table's field in its vtable.
constexpr flatbuffers::voffset_t place_of(std::size_t field) {
  return static_cast<flatbuffers::voffset_t>(4 + 2 * field);
}

template <class Message>
TableOffset write_table(flatbuffers::FlatBufferBuilder& builder, const Message& message);

class TableWriter {
 public:
  explicit TableWriter(flatbuffers::FlatBufferBuilder& builder) : builder_(builder) {}

  template <class Value, class Rule>
  void operator()(const char*, const Value& value, const Rule& rule) {
    if constexpr (!std::is_same_v<Rule, Payload>) slots_[count_++] = slot_of(value, rule);
  }

  /// Writes the fields in falling order of size, so that each lies at a multiple of its size
  /// without gaps.
  TableOffset finish() {
    const auto start = builder_.StartTable();
    for (const std::size_t size : {8U, 4U, 2U, 1U}) {
      for (std::size_t field = count_; field-- > 0;) {
        if (slots_[field].size == size) add(place_of(field), slots_[field]);
      }
    }
    return TableOffset(builder_.EndTable(start));
  }

 private:
  static constexpr std::size_t kFieldsMax = 16;

  /// A field on its way into the table: a number, a child that is written, or bytes.
  struct Slot {
    std::size_t size = 4;
    std::uint64_t bits = 0;
    std::uint64_t default_bits = 0;
    flatbuffers::uoffset_t child = 0;
    std::span<const std::uint8_t> bytes{};
  };

  void add(flatbuffers::voffset_t place, const Slot& slot) {
    if (!slot.bytes.empty()) return add_bytes(place, slot.bytes);
    if (slot.child != 0) return builder_.AddOffset(place, flatbuffers::Offset<void>(slot.child));
    switch (slot.size) {
      case 8:
        return add_number<std::uint64_t>(place, slot);
      case 4:
        return add_number<std::uint32_t>(place, slot);
      case 2:
        return add_number<std::uint16_t>(place, slot);
      default:
        return add_number<std::uint8_t>(place, slot);
    }
  }

  template <class Number>
  void add_number(flatbuffers::voffset_t place, const Slot& slot) {
    builder_.AddElement(place, static_cast<Number>(slot.bits),
                        static_cast<Number>(slot.default_bits));
  }

  void add_bytes(flatbuffers::voffset_t place, std::span<const std::uint8_t> bytes) {
    switch (bytes.size()) {
      case 16:
        return add_array<16>(place, bytes);
      case 32:
        return add_array<32>(place, bytes);
      default:
        ASSERT(bytes.size() == 64);
        return add_array<64>(place, bytes);
    }
  }

  template <std::size_t N>
  void add_array(flatbuffers::voffset_t place, std::span<const std::uint8_t> bytes) {
    std::array<std::uint8_t, N> array;
    std::copy_n(bytes.begin(), N, array.begin());
    builder_.AddStruct(place, &array);
  }

  template <class Number, class Rule>
  static Slot slot_of(const Number& value, const Rule&) requires IsNumber<Number> {
    return {.size = sizeof(Number),
            .bits = bits_of(value),
            .default_bits = std::is_same_v<Rule, SetByDefault> ? 1U : 0U};
  }

  template <std::size_t N>
  static Slot slot_of(const std::array<std::uint8_t, N>& value, Any) {
    return {.bytes = value};
  }
  static Slot slot_of(const base::PeerId& id, Any) { return {.bytes = id.bytes}; }
  static Slot slot_of(const RunId& run, Any) { return {.bytes = run.bytes}; }

  Slot slot_of(const std::string& value, Address) {
    return {.child = value.empty() ? 0 : builder_.CreateString(value).o};
  }

  Slot slot_of(const std::string& value, const Text& rule) {
    ASSERT(rule.cut || value.size() <= rule.most);
    return {.child = builder_.CreateString(value.substr(0, rule.most)).o};
  }

  Slot slot_of(const MemberRecord& record, Any) {
    return {.child = write_table(builder_, record).o};
  }

  Slot slot_of(const base::Bytes& buffers, Tail) {
    return {.bits = static_cast<std::uint32_t>(buffers.size())};
  }

  template <class Element>
  Slot slot_of(const std::vector<Element>& list, const Few& rule) {
    ASSERT(list.size() <= rule.most);
    return {.child = list.empty() && !rule.always ? 0 : write(list)};
  }

  flatbuffers::uoffset_t write(const std::vector<std::string>& texts) {
    return builder_.CreateVectorOfStrings(texts).o;
  }

  flatbuffers::uoffset_t write(const std::vector<MemberRecord>& records) {
    std::vector<TableOffset> tables;
    tables.reserve(records.size());
    for (const MemberRecord& record : records) tables.push_back(write_table(builder_, record));
    return builder_.CreateVector(tables).o;
  }

  flatbuffers::uoffset_t write(const std::vector<Progress>& progress) {
    return builder_.CreateVector(pack_progress(progress)).o;
  }

  template <IsNumber Number>
  flatbuffers::uoffset_t write(const std::vector<Number>& numbers) {
    return builder_.CreateVector(numbers).o;
  }

  template <class Struct>
  flatbuffers::uoffset_t write(const std::vector<Struct>& structs) {
    std::vector<std::uint8_t> bytes;
    for (const Struct& one : structs) put_struct(bytes, one);
    builder_.StartVector(bytes.size() / kStructAlignment, kStructAlignment);
    if (!bytes.empty()) builder_.PushBytes(bytes.data(), bytes.size());
    return builder_.EndVector(structs.size());
  }

  flatbuffers::FlatBufferBuilder& builder_;
  std::array<Slot, kFieldsMax> slots_{};
  std::size_t count_ = 0;
};

template <class Message>
TableOffset write_table(flatbuffers::FlatBufferBuilder& builder, const Message& message) {
  TableWriter writer(builder);
  fields(message, writer);
  return writer.finish();
}

}  // namespace starling::wire
