#include "data/vocabulary.hpp"

#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/assert.hpp"
#include "base/file.hpp"
#include "data/words.hpp"

namespace starling::data {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::uint64_t kVocabularyBytesMax = std::uint64_t{64} << 20;
constexpr const char* kFormat = "starling vocabulary 1";
constexpr const char* kTrainOne = "make one with `starling data train-vocabulary`";

std::uint64_t key_of(std::int32_t left, std::int32_t right) noexcept {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

/// Merges the pairs of a word until none is left that can be.
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

/// The merges in a parsed file; nothing if it is not of the format.
std::optional<std::vector<Merge>> merges_in(const nlohmann::json& file) {
  if (!file.is_object() || !file.contains("merges") || !file["merges"].is_array()) return {};
  if (file.value("format", nlohmann::json()) != kFormat) return {};
  std::vector<Merge> merges;
  for (const nlohmann::json& pair : file["merges"]) {
    if (!pair.is_array() || pair.size() != 2) return {};
    for (const nlohmann::json& token : pair) {
      if (!token.is_number_unsigned() || token.get<std::uint64_t>() >= kVocabularyMax) return {};
    }
    merges.push_back({pair[0].get<std::int32_t>(), pair[1].get<std::int32_t>()});
  }
  return merges;
}

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
  const auto* const text = reinterpret_cast<const char*>(bytes->data());
  const auto parsed = nlohmann::json::parse(text, text + bytes->size(), nullptr, false);
  auto merges = merges_in(parsed);
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
  const base::ByteView parts[] = {base::bytes_of(out.data(), out.size())};
  return base::replace_file(path, parts);
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
