#include "data/file_hash.hpp"

#include <filesystem>
#include <optional>
#include <system_error>

namespace starling::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHashDigits = 32;

/// The text in the cache before the hash.
std::string state_of(const base::FileStamp& file, std::string_view check) {
  return fmt::format("starling-hash-2 {} {} {} {}.{:09} ", check, file.bytes, file.inode,
                     file.changed_s, file.changed_ns);
}

std::string entry_of(const std::string& folder, const std::string& path) {
  std::error_code failed;
  const fs::path absolute = fs::absolute(path, failed);
  return fmt::format("{}/{}-{:016x}.hash", folder, fs::path(path).filename().string(),
                     base::xxh3(absolute.lexically_normal().string()));
}

/// The hash in an entry that begins as `state` does.
std::optional<base::Hash128> remembered(const std::string& entry, const std::string& state) {
  const auto bytes = base::read_file(entry, state.size() + kHashDigits);
  if (!bytes || bytes->size() != state.size() + kHashDigits) return std::nullopt;
  const std::string_view text = base::text_of(*bytes);
  if (!text.starts_with(state)) return std::nullopt;
  return base::Hash128::parse(text.substr(state.size()));
}

void remember(const std::string& folder, const std::string& entry, const std::string& text) {
  if (!base::make_folder(folder)) return;
  static_cast<void>(base::replace_file(entry, text, base::Durability::unsynced));
}

}  // namespace

// The path may lead to another file by now: a remembered hash may belong to that file, and the hash
// of this one must not be remembered for it.
base::Result<base::Hash128> file_hash(const std::string& path, const base::FileStamp& opened,
                                      base::ByteView content, const Cache& cache,
                                      const ContentCheck& check) {
  const bool remembers =
      !cache.folder.empty() && content.size() >= kRememberedBytes && base::stamp_of(path) == opened;
  const std::string state = state_of(opened, check.name);
  const std::string entry = remembers ? entry_of(cache.folder, path) : "";
  if (remembers) {
    if (const auto hash = remembered(entry, state)) return *hash;
  }
  if (cache.on_long_read && content.size() >= cache.long_read) {
    cache.on_long_read(path, content.size());
  }
  if (auto sound = check.run(); !sound) return base::fail(sound.error());
  const base::Hash128 hash = base::xxh3_128(content);
  // A file that was written meanwhile may have been hashed half old, half new.
  if (remembers && base::stamp_of(path) == opened) {
    remember(cache.folder, entry, state + hash.hex());
  }
  return hash;
}

}  // namespace starling::data
