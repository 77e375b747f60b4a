// What a run file says of its data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace starling::data {

/// Who trains on what.
enum class Split {
  iid,           ///< all files are at all peers, which share out the samples in random shards
  stratified,    ///< the same, with every label in proportion in shards, and evenly in their order
  dirichlet,     ///< the same, but some peers see some labels more often than others
  private_data,  ///< every peer has files of its own, and trains on all of them
};

/// Whether every sample must have a label for it.
[[nodiscard]] constexpr bool goes_by_labels(Split split) noexcept {
  return split == Split::stratified || split == Split::dirichlet;
}

/// How training images are changed each time they are shown; images in evaluations never are.
struct Augmentation {
  /// Pixels by which an image may move up, down, left and right; what comes in is 0: the mean of
  /// bytes, or a grey that is agreed on where they are private, but just a number among floats.
  std::uint32_t crop = 0;
  bool flip = false;  ///< left and right change places half of the time

  [[nodiscard]] bool any() const noexcept { return crop != 0 || flip; }
  friend bool operator==(const Augmentation&, const Augmentation&) = default;
};

struct Config {
  /// One of the names that README.md lists; load() refuses any other.
  std::string source = "fashion-mnist";
  /// Its files, or a folder of them; empty: where Debian's package puts them.
  std::vector<std::string> path;
  /// Text alone: files of their own to evaluate on; empty: the end of `path`.
  std::vector<std::string> test_path;
  /// Share of the samples, spread over all of them, or of the text, its end, that is kept for
  /// evaluations where the source has no files for that.
  double test_fraction = 0.1;
  /// Labels of idx and npy are below it; 0: as many as the labels say. Private data whose labels do
  /// not all occur at every peer need it.
  std::uint32_t classes = 0;
  /// Text: the file of its vocabulary; empty: every byte is a token.
  std::string vocabulary;
  Split split = Split::iid;
  double alpha = 1.0;  ///< dirichlet: concentration; smaller is more skewed
  /// Parts that move between peers as a whole. With S shards over P peers of equal weight a
  /// peer's share has a relative deviation of about sqrt((P - 1) / S): 5% for 4 peers.
  std::uint32_t shards = 1024;
  Augmentation augmentation;

  friend bool operator==(const Config&, const Config&) = default;
};

inline constexpr std::uint32_t kShardsMax = 1 << 16;
inline constexpr std::size_t kPathsMax = 4096;  ///< files of a data set
inline constexpr std::uint32_t kCropMax = 256;

}  // namespace starling::data
