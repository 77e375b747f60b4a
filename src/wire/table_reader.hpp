// Reads a message's fields from a verified table of FlatBuffers. wire/rules.hpp checks the values.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>
#include <vector>

#include <flatbuffers/flatbuffers.h>

#include "base/result.hpp"
#include "wire/fields.hpp"
#include "wire/progress.hpp"
#include "wire/struct_bytes.hpp"
#include "wire/table_writer.hpp"

namespace starling::wire {

class TableReader {
 public:
  explicit TableReader(const flatbuffers::Table& table) : table_(table) {}

  template <class Value, class Rule>
  void operator()(const char*, Value& value, const Rule&) {
    if constexpr (std::is_same_v<Rule, Tail>) {
      read(tail_bytes_, false);
      ++field_;
    } else if constexpr (!std::is_same_v<Rule, Payload>) {
      read(value, std::is_same_v<Rule, SetByDefault>);
      ++field_;
    }
  }

  /// The status of packed parts, which were not verified.
  [[nodiscard]] const base::Status& status() const { return status_; }
  /// The bytes of the payload that Tail takes.
  [[nodiscard]] std::size_t tail_bytes() const { return tail_bytes_; }

 private:
  template <class T>
  [[nodiscard]] const T* child() const {
    return table_.GetPointer<const T*>(place_of(field_));
  }

  template <IsNumber Number>
  void read(Number& value, bool by_default) {
    const auto* bytes = table_.GetStruct<const std::uint8_t*>(place_of(field_));
    value = bytes == nullptr ? Number{} : number_at<Number>(bytes);
    if constexpr (std::is_same_v<Number, bool>) {
      if (bytes == nullptr) value = by_default;
    }
  }

  template <std::size_t N>
  void read(std::array<std::uint8_t, N>& value, bool) {
    const auto* bytes = table_.GetStruct<const std::uint8_t*>(place_of(field_));
    if (bytes != nullptr) std::copy_n(bytes, N, value.begin());
  }
  void read(base::PeerId& id, bool) { read(id.bytes, false); }
  void read(RunId& run, bool) { read(run.bytes, false); }

  void read(std::string& value, bool) {
    if (const auto* text = child<flatbuffers::String>()) value = text->str();
  }

  void read(MemberRecord& record, bool) {
    if (const auto* table = child<flatbuffers::Table>()) read_table(*table, record);
  }

  void read(std::vector<std::string>& texts, bool) {
    using Texts = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;
    const auto* from = child<Texts>();
    if (from == nullptr) return;
    for (const auto* text : *from) texts.push_back(text->str());
  }

  void read(std::vector<MemberRecord>& records, bool) {
    using Tables = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::Table>>;
    const auto* from = child<Tables>();
    if (from == nullptr) return;
    for (const auto* table : *from) read_table(*table, records.emplace_back());
  }

  void read(std::vector<Progress>& progress, bool) {
    const auto* packed = child<flatbuffers::Vector<std::uint8_t>>();
    if (packed == nullptr) return;
    auto entries = unpack_progress({packed->data(), packed->size()});
    if (!entries) return fail(std::move(entries.error()));
    progress = std::move(*entries);
  }

  /// The verifier ensures that a vector's size lies at a multiple of its own size. Longer numbers
  /// may lie across this machine's words.
  template <class Element>
  void read(std::vector<Element>& elements, bool) {
    const auto* from = child<flatbuffers::Vector<std::uint8_t>>();
    if (from == nullptr) return;
    elements.reserve(from->size());
    for (std::size_t i = 0; i < from->size(); ++i) {
      if constexpr (IsNumber<Element>) {
        elements.push_back(number_at<Element>(from->Data() + i * sizeof(Element)));
      } else {
        elements.push_back(struct_at<Element>(from->Data() + i * kSizeOf<Element>));
      }
    }
  }

  template <class Message>
  void read_table(const flatbuffers::Table& table, Message& message) {
    TableReader reader(table);
    fields(message, reader);
    if (!reader.status()) status_ = reader.status();
  }

  void fail(base::Error error) { status_ = base::fail(std::move(error)); }

  const flatbuffers::Table& table_;
  std::size_t field_ = 0;
  std::uint32_t tail_bytes_ = 0;
  base::Status status_{};
};

}  // namespace starling::wire
