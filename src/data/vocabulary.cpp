#include "data/vocabulary.hpp"

#include <limits>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/assert.hpp"
#include "base/file.hpp"
#include "data/words.hpp"

namespace starling::data {
namespace {

using base::ErrorCode;
using base::fail;

/// Four lines a merge, as in indented JSON, with tokens of seven digits.
constexpr std::uint64_t kVocabularyBytesMax = std::uint64_t{48} * kVocabularyMax;
constexpr const char* kFormat = "starling vocabulary 1";
constexpr const char* kTrainOne = "make one with `starling data train-vocabulary`";

std::uint64_t key_of(std::int32_t left, std::int32_t right) noexcept {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

/// Merges the pairs of a word until no merge applies.
void merge_all(const Vocabulary& vocabulary, std::vector<std::int32_t>& tokens) {
  while (tokens.size() > 1) {
    std::int32_t best = std::numeric_limits<std::int32_t>::max();
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const std::int32_t id = vocabulary.merged(tokens[i], tokens[i + 1]);
      if (id >= 0 && id < best) best = id;
    }
    if (best == std::numeric_limits<std::int32_t>::max()) return;
    const Merge merge = vocabulary.merges()[static_cast<std::size_t>(best) - kBytes];
    std::size_t to = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i, ++to) {
      const bool here = i + 1 < tokens.size() && Merge{tokens[i], tokens[i + 1]} == merge;
      tokens[to] = here ? best : tokens[i];
      if (here) ++i;
    }
    tokens.resize(to);
  }
}

/// Takes the merges from a file while it is parsed, and stops at the first thing that is not of the
/// format: so a stranger's nesting or repetition costs neither memory nor stack.
class MergesReader final : public nlohmann::json::json_sax_t {
 public:
  /// Nothing if the file is not of the format.
  static std::optional<std::vector<Merge>> read(std::string_view text) {
    MergesReader reader;
    const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
    if (!parsed || !reader.has_format_ || !reader.has_merges_) return {};
    return std::move(reader.merges_);
  }

  bool start_object(std::size_t) override {
    return std::exchange(place_, Place::file) == Place::out;
  }
  bool end_object() override { return true; }
  bool key(std::string& name) override {
    bool& seen = name == "format" ? has_format_ : has_merges_;
    in_format_ = name == "format";
    return (in_format_ || name == "merges") && !std::exchange(seen, true);
  }
  bool string(std::string& value) override {
    return place_ == Place::file && in_format_ && value == kFormat;
  }
  bool start_array(std::size_t) override {
    if (place_ != Place::merges) {
      return std::exchange(place_, Place::merges) == Place::file && !in_format_;
    }
    place_ = Place::merge;
    tokens_ = 0;
    return true;
  }
  bool end_array() override {
    if (place_ == Place::merge && tokens_ != 2) return false;
    place_ = place_ == Place::merge ? Place::merges : Place::file;
    return true;
  }
  bool number_unsigned(std::uint64_t value) override {
    if (place_ != Place::merge || value >= kVocabularyMax) return false;
    const auto token = static_cast<std::int32_t>(value);
    if (tokens_ == 0) merges_.push_back({.left = token});
    if (tokens_ == 1) merges_.back().right = token;
    return ++tokens_ <= 2;
  }
  bool null() override { return false; }
  bool boolean(bool) override { return false; }
  bool number_integer(std::int64_t) override { return false; }
  bool number_float(double, const std::string&) override { return false; }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  enum class Place { out, file, merges, merge };

  Place place_ = Place::out;
  bool in_format_ = false;  ///< the next value is that of "format", not that of "merges"
  bool has_format_ = false;
  bool has_merges_ = false;
  int tokens_ = 0;  ///< of the merge under way
  std::vector<Merge> merges_;
};

}  // namespace

Vocabulary::Vocabulary(std::vector<Merge> merges,
                       std::unordered_map<std::uint64_t, std::int32_t> ids)
    : merges_(std::move(merges)), ids_(std::move(ids)) {
  for (std::uint32_t byte = 0; byte < kBytes; ++byte) {
    bytes_ += static_cast<char>(byte);
    ends_.push_back(byte + 1);
  }
  for (const Merge& merge : merges_) {
    bytes_.reserve(bytes_.size() + 2 * kWordBytesMax);  // text() looks into it
    bytes_ += text(merge.left);
    bytes_ += text(merge.right);
    ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
}

base::Result<Vocabulary> Vocabulary::make(std::vector<Merge> merges, const std::string& name) {
  if (merges.size() > kVocabularyMax - kBytes) {
    return fail(ErrorCode::data, "{}: has {} merges, at most {} are accepted", name, merges.size(),
                kVocabularyMax - kBytes);
  }
  std::unordered_map<std::uint64_t, std::int32_t> ids;
  std::vector<std::uint32_t> sizes(kBytes, 1);
  for (const Merge& merge : merges) {
    const auto id = static_cast<std::int32_t>(sizes.size());
    if (merge.left < 0 || merge.right < 0 || merge.left >= id || merge.right >= id) {
      return fail(ErrorCode::data, "{}: token {} merges {} and {}, which do not come before it",
                  name, id, merge.left, merge.right);
    }
    const std::uint32_t size =
        sizes[static_cast<std::size_t>(merge.left)] + sizes[static_cast<std::size_t>(merge.right)];
    if (size > kWordBytesMax) {
      return fail(ErrorCode::data, "{}: token {} has {} bytes, at most {} are accepted", name, id,
                  size, kWordBytesMax);
    }
    sizes.push_back(size);
    if (!ids.emplace(key_of(merge.left, merge.right), id).second) {
      return fail(ErrorCode::data, "{}: token {} merges {} and {}, as another one does", name, id,
                  merge.left, merge.right);
    }
  }
  return Vocabulary(std::move(merges), std::move(ids));
}

base::Result<Vocabulary> Vocabulary::load(const std::string& path) {
  const auto bytes = base::read_file(path, kVocabularyBytesMax);
  if (!bytes) return fail(bytes.error());
  auto merges = MergesReader::read(base::text_of(*bytes));
  if (!merges) {
    return fail(ErrorCode::data, "{}: is not a vocabulary (\"format\": \"{}\"): {}", path, kFormat,
                kTrainOne);
  }
  return make(std::move(*merges), path);
}

base::Status Vocabulary::save(const std::string& path) const {
  std::string out = fmt::format("{{\"format\": \"{}\", \"merges\": [", kFormat);
  for (std::size_t i = 0; i < merges_.size(); ++i) {
    const char* const before = i == 0 ? "" : i % 10 == 0 ? ",\n" : ", ";
    out += fmt::format("{}[{}, {}]", before, merges_[i].left, merges_[i].right);
  }
  out += "]}\n";
  return base::replace_file(path, out);
}

std::int32_t Vocabulary::merged(std::int32_t left, std::int32_t right) const noexcept {
  const auto found = ids_.find(key_of(left, right));
  return found == ids_.end() ? -1 : found->second;
}

std::string_view Vocabulary::text(std::int32_t token) const noexcept {
  const auto at = static_cast<std::size_t>(token);
  ASSERT(token >= 0 && at < ends_.size());
  const std::uint32_t begin = at == 0 ? 0 : ends_[at - 1];
  return std::string_view(bytes_).substr(begin, ends_[at] - begin);
}

std::string Vocabulary::decode(std::span<const std::int32_t> tokens) const {
  std::string out;
  for (const std::int32_t token : tokens) {
    const bool known = token >= 0 && static_cast<std::uint32_t>(token) < size();
    out += known ? text(token) : "\xef\xbf\xbd";
  }
  return out;
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  Encoder encoder(*this);
  Words words(text);
  for (auto word = words.next(); !word.empty(); word = words.next()) encoder.append(word, tokens);
  return tokens;
}

base::Hash128 Vocabulary::hash() const noexcept {
  return base::xxh3_128(base::bytes_of(std::span(merges_)));
}

void Encoder::append(std::string_view word, std::vector<std::int32_t>& out) {
  auto found = known_.find(std::string(word));
  if (found == known_.end()) {
    std::vector<std::int32_t> tokens;
    for (const char c : word) tokens.push_back(static_cast<unsigned char>(c));
    merge_all(vocabulary_, tokens);
    if (known_.size() >= kKnownMax) known_.clear();
    found = known_.emplace(word, std::move(tokens)).first;
  }
  out.insert(out.end(), found->second.begin(), found->second.end());
}

base::Result<Vocabulary> load_vocabulary(const Config& config) {
  if (config.vocabulary.empty()) return Vocabulary();
  auto vocabulary = Vocabulary::load(config.vocabulary);
  if (!vocabulary) return fail(vocabulary.error().in("data.vocabulary"));
  return vocabulary;
}

}  // namespace starling::data
