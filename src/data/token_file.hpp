// Files of tokens that are mapped, not read: a text of any size that was encoded once.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/hasher.hpp"
#include "base/result.hpp"
#include "data/cache.hpp"
#include "data/storage.hpp"
#include "data/vocabulary.hpp"

namespace starling::data {

inline constexpr const char* kTokenFileSuffix = ".tokens";
/// Tokens in one file of a TokenWriter.
inline constexpr std::uint64_t kTokensAFile = std::uint64_t{1} << 28;

/// The first bytes of a file of tokens, little-endian; the tokens follow.
struct TokenFileHeader {
  std::array<char, 8> magic{'S', 't', 'a', 'r', 'T', 'o', 'k', '1'};
  std::uint32_t width = 0;        ///< bytes of a token: 2, or 4 from 65,537 tokens on
  std::uint32_t vocabulary = 0;   ///< tokens are below it
  std::uint64_t count = 0;        ///< tokens
  std::uint64_t hash = 0;         ///< XXH3-64 of the tokens
  base::Hash128 vocabulary_hash;  ///< Vocabulary::hash()
  std::array<std::uint8_t, 16> reserved{};
};
static_assert(sizeof(TokenFileHeader) == 64 && std::is_trivially_copyable_v<TokenFileHeader>);

struct TokenFile {
  Storage storage;
  TokenFileHeader header;
  base::Hash128 hash;  ///< of the whole file

  /// For Tokens::append.
  [[nodiscard]] base::ByteView tokens() const noexcept {
    return storage.view().subspan(sizeof header);
  }
};

/// Maps a file and checks all of it; with a folder in `cache` only once (see file_hash). Errors
/// (ErrorCode::data) say what is wrong with it.
[[nodiscard]] base::Result<TokenFile> open_token_file(const std::string& path, const Cache& cache);

/// Like list_files(), for files of tokens. A folder is refused if a TokenWriter's names in it do
/// not begin with 00000 and continue without a gap: it holds only a part of a text.
[[nodiscard]] base::Result<std::vector<std::string>> list_token_files(
    std::span<const std::string> paths);

/// The tokens of a text in memory, as they would be in a file.
[[nodiscard]] TokenFile encode_text(std::span<const base::ByteView> parts,
                                    const Vocabulary& vocabulary);

/// Writes tokens to files "00000.tokens", "00001.tokens" and so on. They have other names until
/// finish(), and the first one gets its own name last: so an incomplete folder never looks
/// complete, even if the program ends at any moment. Files written without finish() are removed, or
/// overwritten by the next writer to the folder.
class TokenWriter {
 public:
  /// `vocabulary` outlives this. Creates `folder` if need be; error: it holds such files already.
  [[nodiscard]] static base::Result<TokenWriter> create(std::string folder,
                                                        const Vocabulary& vocabulary,
                                                        std::uint64_t tokens_a_file = kTokensAFile);
  TokenWriter(TokenWriter&&) noexcept = default;
  TokenWriter& operator=(TokenWriter&&) = delete;
  ~TokenWriter();

  [[nodiscard]] base::Status add(std::span<const std::int32_t> tokens);
  /// Ends the last file and gives all of them their names. Returns the files written.
  [[nodiscard]] base::Result<std::vector<std::string>> finish();

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  TokenWriter(std::string folder, const Vocabulary& vocabulary, std::uint64_t tokens_a_file);
  base::Status open_next();
  base::Status close();
  base::Status write(base::ByteView bytes);

  std::string folder_;
  std::uint64_t tokens_a_file_;
  TokenFileHeader header_;
  base::Hasher hasher_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::vector<std::string> paths_;
  bool finished_ = false;
};

}  // namespace starling::data
