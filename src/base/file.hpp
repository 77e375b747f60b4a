// Files that are read whole, mapped, or written so that a crash leaves the old or the new one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <sys/types.h>

#include "base/bytes.hpp"
#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace starling::base {

/// Of a file that open() creates: less what the user's umask takes away.
inline constexpr mode_t kNewFileMode = 0666;

/// Reads a whole regular file of at most `bytes_max` bytes. Errors (ErrorCode::data) name the
/// path and the reason. Blocks for the disk.
[[nodiscard]] Result<Buffer> read_file(const std::string& path, std::uint64_t bytes_max);

/// Creates or overwrites `path` with the parts one after the other and waits until they are on
/// disk. After an error the file may be incomplete.
[[nodiscard]] Status write_file_synced(const std::string& path, std::span<const ByteView> parts);

enum class Durability {
  synced,    ///< on disk when the call returns
  unsynced,  ///< whenever the system gets to it: for what can be made again and is checked
};

/// Writes beside `path` and renames: whoever opens `path` finds the old or the new content,
/// whole, also after a crash (if synced), and with several writers one of their contents. Where
/// `path` is a symbolic link, it is the file behind it; a device, a pipe or a folder is refused. A
/// file keeps its mode; a new one has what the user's umask leaves of kNewFileMode.
[[nodiscard]] Status replace_file(const std::string& path, std::span<const ByteView> parts,
                                  Durability durability = Durability::synced);
[[nodiscard]] Status replace_file(const std::string& path, std::string_view text,
                                  Durability durability = Durability::synced);

/// For who works for long before it writes: whether replace_file() finds a place at `path` now.
[[nodiscard]] Status check_replaceable(const std::string& path);

/// Creates `path`, which its owner alone may read (mode 0600), whole or not at all, and waits until
/// it is on disk. False, and nothing is changed, where there is such a file: of two processes that
/// start at once one makes it.
[[nodiscard]] Result<bool> create_private_file(const std::string& path, ByteView content);

/// Creates a folder, and those that it is to lie in; good where it is there. Errors
/// (ErrorCode::data) name the path and the reason.
[[nodiscard]] Status make_folder(const std::string& path);

/// Waits until the entries of a folder (creations, renames) are on disk.
[[nodiscard]] Status sync_folder(const std::string& path);

/// A file that grows by whole pieces, in order. One thread at a time.
class AppendedFile {
 public:
  /// Adds to what `path` holds, or creates it. Errors (ErrorCode::data), here and below, name the
  /// path and the reason.
  [[nodiscard]] static Result<AppendedFile> open(const std::string& path);

  /// Adds a piece and hands it to the system. After an error (a full disk, above all) nothing of it
  /// is in the file, and the next piece may be tried.
  [[nodiscard]] Status append(std::string_view piece);

 private:
  AppendedFile(std::string path, Descriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  Descriptor file_;
};

/// Which file, and which state of it: whoever finds the same stamp again finds the same content, as
/// far as the system tells.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t changed_s = 0;   ///< time of the last change of its content
  std::int64_t changed_ns = 0;  ///< the rest of it
  bool operator==(const FileStamp&) const = default;
};

/// Of what `path` leads to now. Nothing where it cannot be examined.
[[nodiscard]] std::optional<FileStamp> stamp_of(const std::string& path);

/// A regular file mapped for reading; peers on one machine share its pages. Whoever replaces
/// such a file must rename a new one over it: reading pages that were cut off ends the program.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        stamp_(other.stamp_) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(stamp_, other.stamp_);
    return *this;
  }
  ~MappedFile();

  /// Maps a file of at most `bytes_max` bytes; an empty file gives an empty view.
  [[nodiscard]] static Result<MappedFile> open(const std::string& path, std::uint64_t bytes_max);

  [[nodiscard]] ByteView view() const noexcept {
    return {static_cast<const std::byte*>(data_), size_};
  }

  /// Of the file when it was opened: what its path leads to may be another one by now.
  [[nodiscard]] const FileStamp& stamp() const noexcept { return stamp_; }

  /// Asks the system to read from now on only what is looked at, and nothing ahead of it.
  void expect_random_reads() noexcept;

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
  FileStamp stamp_;
};

}  // namespace starling::base
