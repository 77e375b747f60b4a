// A run file's settings for its data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace starling::data {

/// How the samples are divided among the peers.
enum class Split {
  iid,           ///< all peers have all files, and divide the samples in random shards
  stratified,    ///< the same, with every label in proportion in shards, and evenly in their order
  dirichlet,     ///< the same, but some peers see some labels more often than others
  private_data,  ///< every peer has its own files, and trains on all of them
};

/// Whether this split needs a label for every sample.
[[nodiscard]] constexpr bool goes_by_labels(Split split) noexcept {
  return split == Split::stratified || split == Split::dirichlet;
}

/// How training images are changed each time they are used; images in evaluations never are.
struct Augmentation {
  /// Pixels by which an image may move up, down, left and right. New pixels are 0: for bytes, this
  /// is the mean, or an agreed grey if they are private; for floats, it is just a number.
  std::uint32_t crop = 0;
  bool flip = false;  ///< swap left and right half of the time

  [[nodiscard]] bool any() const noexcept { return crop != 0 || flip; }
  friend bool operator==(const Augmentation&, const Augmentation&) = default;
};

struct Config {
  /// One of the names that README.md lists; load() refuses any other.
  std::string source = "fashion-mnist";
  /// The source's files, or a folder of them; empty: where Debian's package puts them.
  std::vector<std::string> path;
  /// Only for text: separate files for evaluation; empty: the end of `path`.
  std::vector<std::string> test_path;
  /// The share of the samples, spread over all of them, or of the text, at its end, that is kept
  /// for evaluations if the source has no files for them.
  double test_fraction = 0.1;
  /// Labels of idx and npy are below it; 0: determined by the labels. Private data need it if some
  /// labels do not occur at every peer.
  std::uint32_t classes = 0;
  /// Text: the file of its vocabulary; empty: every byte is a token.
  std::string vocabulary;
  Split split = Split::iid;
  double alpha = 1.0;  ///< dirichlet: concentration; smaller is more skewed
  /// Parts that move between peers as a whole. With S shards over P peers of equal weight, a peer's
  /// share has a relative deviation of about sqrt((P - 1) / S): 5% for 4 peers.
  std::uint32_t shards = 1024;
  Augmentation augmentation;

  friend bool operator==(const Config&, const Config&) = default;
};

inline constexpr std::uint32_t kShardsMax = 1 << 16;
inline constexpr std::size_t kPathsMax = 4096;  ///< files of a data set
inline constexpr std::uint32_t kCropMax = 256;

}  // namespace starling::data
