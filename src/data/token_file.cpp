#include "data/token_file.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "base/assert.hpp"
#include "base/file.hpp"
#include "data/file_hash.hpp"
#include "data/text_files.hpp"
#include "data/token_set.hpp"
#include "data/words.hpp"

namespace starling::data {
namespace {

namespace fs = std::filesystem;
using base::ErrorCode;
using base::fail;

constexpr std::uint64_t kTokenFileBytesMax = std::uint64_t{1} << 44;
constexpr std::size_t kCheckedAtOnce = 1 << 16;
constexpr std::uint32_t kNarrowMax = 1 << 16;  ///< tokens that fit into 16 bits

constexpr const char* kPartialSuffix = ".partial";  ///< until all files are complete

std::string partial(const std::string& path) { return path + kPartialSuffix; }

std::string file_name(std::uint64_t number) {
  return fmt::format("{:05}{}", number, kTokenFileSuffix);
}

/// The number of this file among a TokenWriter's files; nothing for any other file.
std::optional<std::uint64_t> number_of(const std::string& name) {
  std::uint64_t number = 0;
  std::from_chars(name.data(), name.data() + name.size(), number);
  if (name != file_name(number)) return std::nullopt;
  return number;
}

/// Whether the numbered files among these, in order, are complete.
base::Status check_numbers(std::span<const std::string> files) {
  std::map<std::string, std::uint64_t> next;  ///< number, by folder
  for (const std::string& file : files) {
    const fs::path path(file);
    const auto number = number_of(path.filename());
    if (!number) continue;
    const std::uint64_t expected = next[path.parent_path()]++;
    if (*number == expected) continue;
    return fail(ErrorCode::data,
                "{}: {} is missing, as after a `starling data encode` that was interrupted: remove "
                "the folder and encode the text again, or name in data.path the files that are "
                "meant",
                path.parent_path().string(), file_name(expected));
  }
  return {};
}

TokenFileHeader header_for(const Vocabulary& vocabulary) {
  TokenFileHeader header;
  header.vocabulary = vocabulary.size();
  header.vocabulary_hash = vocabulary.hash();
  header.width = header.vocabulary > kNarrowMax ? 4 : 2;
  return header;
}

base::Status check_header(const TokenFileHeader& header, std::uint64_t bytes,
                          const std::string& path) {
  if (header.magic != TokenFileHeader{}.magic) {
    return fail(ErrorCode::data,
                "{}: is not a file of tokens: make one with `starling data encode`", path);
  }
  const bool wide = header.vocabulary > kNarrowMax;
  if (header.vocabulary < kBytes || header.vocabulary > kVocabularyMax ||
      header.width != (wide ? 4 : 2)) {
    return fail(ErrorCode::data, "{}: is damaged: tokens of {} bytes, vocabulary of {}", path,
                header.width, header.vocabulary);
  }
  if (header.count != bytes / header.width || bytes % header.width != 0) {
    return fail(ErrorCode::data,
                "{}: is {}: {} bytes of tokens are there, {} tokens of {} bytes "
                "announced",
                path, header.count > bytes / header.width ? "truncated" : "damaged", bytes,
                header.count, header.width);
  }
  return {};
}

base::Status check_tokens(const TokenFileHeader& header, base::ByteView bytes,
                          const std::string& path) {
  if (base::xxh3(bytes) != header.hash) {
    return fail(ErrorCode::data,
                "{}: is damaged: its tokens do not have the hash that its header "
                "says; encode the text again",
                path);
  }
  Tokens tokens;
  tokens.append(bytes, header.width);
  std::vector<std::int32_t> some;
  for (std::uint64_t first = 0; first < header.count; first += some.size()) {
    some.resize(std::min<std::uint64_t>(kCheckedAtOnce, header.count - first));
    tokens.copy(first, std::numeric_limits<std::int32_t>::max(), some);
    const std::int32_t largest = std::ranges::max(some);
    if (static_cast<std::uint32_t>(largest) >= header.vocabulary) {
      return fail(ErrorCode::data, "{}: token {} is not below {}, the size of its vocabulary", path,
                  largest, header.vocabulary);
    }
  }
  return {};
}

}  // namespace

base::Result<TokenFile> open_token_file(const std::string& path, const Cache& cache) {
  auto file = base::MappedFile::open(path, kTokenFileBytesMax);
  if (!file) return fail(file.error());
  const base::FileStamp opened = file->stamp();
  TokenFile made{.storage = Storage(std::move(*file)), .header = {}, .hash = {}};
  const base::ByteView content = made.storage.view();
  if (content.size() < sizeof made.header) {
    return fail(ErrorCode::data, "{}: is too short for a file of tokens ({} bytes)", path,
                content.size());
  }
  std::memcpy(&made.header, content.data(), sizeof made.header);
  if (auto sound = check_header(made.header, made.tokens().size(), path); !sound) {
    return fail(sound.error());
  }
  const auto hash =
      file_hash(path, opened, content, cache,
                {"tokens", [&] { return check_tokens(made.header, made.tokens(), path); }});
  if (!hash) return fail(hash.error());
  made.hash = *hash;
  return made;
}

// A path that names a file means only that file.
base::Result<std::vector<std::string>> list_token_files(std::span<const std::string> paths) {
  return list_files(paths, kTokenFileSuffix, check_numbers);
}

TokenFile encode_text(std::span<const base::ByteView> parts, const Vocabulary& vocabulary) {
  TokenFileHeader header = header_for(vocabulary);
  base::Bytes content(sizeof header);
  Encoder encoder(vocabulary);
  std::vector<std::int32_t> tokens;
  for (const base::ByteView part : parts) {
    Words words(base::text_of(part));
    for (auto word = words.next(); !word.empty(); word = words.next()) {
      tokens.clear();
      encoder.append(word, tokens);
      header.count += tokens.size();
      for (const std::int32_t token : tokens) {
        const base::ByteView bytes = base::bytes_of(std::span(&token, 1)).first(header.width);
        content.insert(content.end(), bytes.begin(), bytes.end());
      }
    }
  }
  header.hash = base::xxh3(base::ByteView(content).subspan(sizeof header));
  std::memcpy(content.data(), &header, sizeof header);
  const base::Hash128 hash = base::xxh3_128(content);
  return {.storage = Storage(std::move(content)), .header = header, .hash = hash};
}

base::Result<TokenWriter> TokenWriter::create(std::string folder, const Vocabulary& vocabulary,
                                              std::uint64_t tokens_a_file) {
  if (auto made = base::make_folder(folder); !made) return fail(made.error());
  std::vector<fs::path> leftovers;  ///< of an interrupted writer
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed); !failed && at != fs::directory_iterator();
       at.increment(failed)) {
    const fs::path& path = at->path();
    if (path.extension() == kPartialSuffix && number_of(path.stem())) leftovers.push_back(path);
    if (path.extension() != kTokenFileSuffix) continue;
    return fail(ErrorCode::data,
                "{}: holds files of tokens already: choose another folder, or "
                "remove them",
                folder);
  }
  for (const fs::path& path : leftovers) fs::remove(path, failed);
  return TokenWriter(std::move(folder), vocabulary, tokens_a_file);
}

TokenWriter::TokenWriter(std::string folder, const Vocabulary& vocabulary,
                         std::uint64_t tokens_a_file)
    : folder_(std::move(folder)), tokens_a_file_(tokens_a_file), header_(header_for(vocabulary)) {
  ASSERT(tokens_a_file > 0);
}

TokenWriter::~TokenWriter() {
  if (finished_) return;
  std::error_code ignored;
  for (const std::string& path : paths_) {
    fs::remove(path, ignored);
    fs::remove(partial(path), ignored);
  }
}

base::Status TokenWriter::write(base::ByteView bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size()) return {};
  return fail(ErrorCode::data, "{}: cannot be written: {}", paths_.back(), std::strerror(errno));
}

base::Status TokenWriter::open_next() {
  paths_.push_back(fmt::format("{}/{}", folder_, file_name(paths_.size())));
  file_.reset(std::fopen(partial(paths_.back()).c_str(), "wb"));
  if (file_ == nullptr) {
    return fail(ErrorCode::data, "{}: cannot be created: {}", paths_.back(), std::strerror(errno));
  }
  header_.count = 0;
  hasher_ = base::Hasher();
  return write(base::bytes_of(std::span(&header_, 1)));
}

// Completes the header.
base::Status TokenWriter::close() {
  header_.hash = hasher_.digest();
  const std::string& path = paths_.back();
  const bool back = std::fseek(file_.get(), 0, SEEK_SET) == 0;
  const bool complete = back && write(base::bytes_of(std::span(&header_, 1))).has_value();
  const bool closed = std::fclose(file_.release()) == 0;
  if (complete && closed) return {};
  return fail(ErrorCode::data, "{}: cannot be written: {}", path, std::strerror(errno));
}

base::Status TokenWriter::add(std::span<const std::int32_t> tokens) {
  std::vector<std::uint16_t> narrow;
  while (!tokens.empty()) {
    if (file_ != nullptr && header_.count == tokens_a_file_) {
      if (auto status = close(); !status) return status;
    }
    if (file_ == nullptr) {
      if (auto status = open_next(); !status) return status;
    }
    const auto now =
        tokens.first(std::min<std::uint64_t>(tokens.size(), tokens_a_file_ - header_.count));
    base::ByteView bytes = base::bytes_of(now);
    if (header_.width == 2) {
      narrow.assign(now.begin(), now.end());
      bytes = base::bytes_of(std::span(std::as_const(narrow)));
    }
    hasher_.update(bytes);
    if (auto status = write(bytes); !status) return status;
    header_.count += now.size();
    tokens = tokens.subspan(now.size());
  }
  return {};
}

base::Result<std::vector<std::string>> TokenWriter::finish() {
  if (file_ == nullptr) return fail(ErrorCode::data, "{}: the text is empty", folder_);
  if (auto status = close(); !status) return fail(status.error());
  // A folder without the first file is refused, so that file comes last.
  for (auto path = paths_.rbegin(); path != paths_.rend(); ++path) {
    if (std::rename(partial(*path).c_str(), path->c_str()) == 0) continue;
    return fail(ErrorCode::data, "{}: cannot be put in place: {}", *path, std::strerror(errno));
  }
  finished_ = true;
  return paths_;
}

}  // namespace starling::data
