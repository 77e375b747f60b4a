#include "data/file_hash.hpp"

#include <filesystem>
#include <optional>
#include <system_error>

#include <sys/stat.h>

#include "base/file.hpp"

namespace starling::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHashDigits = 32;

/// What stands in the cache before the hash. Nothing if the file cannot be examined.
std::optional<std::string> state_of(const std::string& path, std::string_view check) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return fmt::format("starling-hash-2 {} {} {} {}.{:09} ", check, info.st_size, info.st_ino,
                     info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
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

base::Result<base::Hash128> file_hash(const std::string& path, base::ByteView content,
                                      const Cache& cache, const ContentCheck& check) {
  const bool remembers = !cache.folder.empty() && content.size() >= kRememberedBytes;
  const auto state = remembers ? state_of(path, check.name) : std::nullopt;
  const std::string entry = state ? entry_of(cache.folder, path) : "";
  if (state) {
    if (const auto hash = remembered(entry, *state)) return *hash;
  }
  if (cache.on_long_read && content.size() >= cache.long_read) {
    cache.on_long_read(path, content.size());
  }
  if (auto sound = check.run(); !sound) return base::fail(sound.error());
  const base::Hash128 hash = base::xxh3_128(content);
  if (state && state == state_of(path, check.name))
    remember(cache.folder, entry, *state + hash.hex());
  return hash;
}

}  // namespace starling::data
