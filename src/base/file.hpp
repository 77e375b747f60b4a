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

/// The mode of a file that open() creates; the user's umask takes bits away.
inline constexpr mode_t kNewFileMode = 0666;

/// Reads a whole regular file of at most `bytes_max` bytes. Errors (ErrorCode::data) name the
/// path and the reason. Blocks for the disk.
[[nodiscard]] Result<Bytes> read_file(const std::string& path, std::uint64_t bytes_max);

/// Creates or overwrites `path` with the parts one after the other and waits until they are on
/// disk. After an error the file may be incomplete.
[[nodiscard]] Status write_file_synced(const std::string& path, std::span<const ByteView> parts);

enum class Durability {
  synced,    ///< on disk when the call returns
  unsynced,  ///< on disk whenever the system writes it: for data that is checked and can be remade
};

/// Writes beside `path` and renames: a program that opens `path` finds the old or the new content,
/// whole, also after a crash (if synced), and with several writers the content of one of them. If
/// `path` is a symbolic link, this replaces the file behind it; a device, a pipe or a folder is
/// refused. A file keeps its mode; a new one has kNewFileMode without the bits of the user's umask.
[[nodiscard]] Status replace_file(const std::string& path, std::span<const ByteView> parts,
                                  Durability durability = Durability::synced);
[[nodiscard]] Status replace_file(const std::string& path, std::string_view text,
                                  Durability durability = Durability::synced);

/// For callers that work for long before they write: whether replace_file() could write `path` now.
[[nodiscard]] Status check_replaceable(const std::string& path);

/// Creates `path`, which only its owner may read (mode 0600), whole or not at all, and waits until
/// it is on disk. False if the file exists; then nothing is changed. Of two processes that start at
/// once, one makes the file.
[[nodiscard]] Result<bool> create_private_file(const std::string& path, ByteView content);

/// Creates a folder and its parent folders; succeeds if it is there. Errors (ErrorCode::data) name
/// the path and the reason.
[[nodiscard]] Status make_folder(const std::string& path);

/// Waits until the entries of a folder (creations, renames) are on disk.
[[nodiscard]] Status sync_folder(const std::string& path);

/// A file that grows by whole pieces, in order. One thread at a time.
class AppendedFile {
 public:
  /// Opens `path` to add to its content, or creates it. Errors (ErrorCode::data), here and below,
  /// name the path and the reason.
  [[nodiscard]] static Result<AppendedFile> open(const std::string& path);

  /// Adds a piece and passes it to the system. After an error (mostly a full disk), the file has
  /// nothing of the piece, and the next piece may be tried.
  [[nodiscard]] Status append(std::string_view piece);

 private:
  AppendedFile(std::string path, Descriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  Descriptor file_;
};

/// Identifies a file and its state: the same stamp means the same content, as far as the system can
/// tell.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t changed_s = 0;   ///< time of the last change of its content
  std::int64_t changed_ns = 0;  ///< the rest of it
  bool operator==(const FileStamp&) const = default;
};

/// The stamp of the file that `path` leads to now. Nothing if it cannot be examined.
[[nodiscard]] std::optional<FileStamp> stamp_of(const std::string& path);

/// A regular file mapped for reading; peers on one machine share its pages. To replace such a file,
/// rename a new one over it: reading pages that were cut off ends the program.
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

  /// The stamp of the file when it was opened: its path may lead to another file by now.
  [[nodiscard]] const FileStamp& stamp() const noexcept { return stamp_; }

  /// Asks the system to read only the accessed pages from now on, and nothing ahead of them.
  void expect_random_reads() noexcept;

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
  FileStamp stamp_;
};

}  // namespace starling::base
