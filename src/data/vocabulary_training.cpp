#include "data/vocabulary_training.hpp"

#include <algorithm>
#include <queue>
#include <utility>

#include "base/assert.hpp"
#include "data/words.hpp"

namespace starling::data {
namespace {

/// The least number of times that a pair must come to be merged.
constexpr std::uint64_t kPairCountMin = 2;

struct Word {
  std::vector<std::int32_t> tokens;
  std::uint64_t count;
};

struct Pair {
  std::int32_t left;
  std::int32_t right;

  friend auto operator<=>(const Pair&, const Pair&) = default;
};

struct PairHash {
  std::size_t operator()(const Pair& pair) const noexcept {
    const auto both = std::uint64_t{static_cast<std::uint32_t>(pair.left)} << 32 |
                      static_cast<std::uint32_t>(pair.right);
    return static_cast<std::size_t>((both ^ both >> 29) * 0x9e3779b97f4a7c15ULL >> 16);
  }
};

struct Occurrences {
  std::uint64_t count = 0;
  std::vector<std::uint32_t> words;  ///< some may no longer have it
};

/// A pair with its count when it was queued; the most frequent comes first.
struct Candidate {
  std::uint64_t count;
  Pair pair;

  friend bool operator<(const Candidate& a, const Candidate& b) noexcept {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

/// The words with the merges so far, and where each pair is.
class Corpus {
 public:
  explicit Corpus(std::vector<Word> words) : words_(std::move(words)) {
    for (std::uint32_t i = 0; i < words_.size(); ++i) count(i);
    for (const auto& [pair, found] : pairs_) line_.push({found.count, pair});
  }

  /// The most frequent pair; its count is 0 if there is none.
  Candidate most_frequent() {
    while (!line_.empty()) {
      const Candidate first = line_.top();
      const auto found = pairs_.find(first.pair);
      const std::uint64_t now = found == pairs_.end() ? 0 : found->second.count;
      if (now == first.count) return first;
      line_.pop();
      if (now != 0) line_.push({now, first.pair});
    }
    return {};
  }

  /// Makes the pair one token, wherever it occurs.
  void merge(const Pair& pair, std::int32_t token) {
    const auto words = std::move(pairs_.at(pair).words);
    fresh_.clear();
    for (const std::uint32_t word : words) {
      if (!contains(word, pair)) continue;
      uncount(word);
      join(words_[word].tokens, pair, token);
      count(word, token);
    }
    pairs_.erase(pair);
    std::ranges::sort(fresh_);
    fresh_.erase(std::unique(fresh_.begin(), fresh_.end()), fresh_.end());
    for (const Pair& made : fresh_) {
      if (const auto found = pairs_.find(made); found != pairs_.end()) {
        line_.push({found->second.count, made});
      }
    }
  }

 private:
  bool contains(std::uint32_t word, const Pair& pair) const {
    const auto& tokens = words_[word].tokens;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      if (tokens[i] == pair.left && tokens[i + 1] == pair.right) return true;
    }
    return false;
  }

  static void join(std::vector<std::int32_t>& tokens, const Pair& pair, std::int32_t token) {
    std::size_t to = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i, ++to) {
      const bool here =
          tokens[i] == pair.left && i + 1 < tokens.size() && tokens[i + 1] == pair.right;
      tokens[to] = here ? token : tokens[i];
      if (here) ++i;
    }
    tokens.resize(to);
  }

  /// Adds a word's pairs. Those with the token `fresh` may be more frequent than ever.
  void count(std::uint32_t word, std::int32_t fresh = -1) {
    const auto& [tokens, times] = words_[word];
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const Pair pair{tokens[i], tokens[i + 1]};
      Occurrences& found = pairs_[pair];
      found.count += times;
      if (found.words.empty() || found.words.back() != word) found.words.push_back(word);
      if (pair.left == fresh || pair.right == fresh) fresh_.push_back(pair);
    }
  }

  void uncount(std::uint32_t word) {
    const auto& [tokens, times] = words_[word];
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      pairs_.at({tokens[i], tokens[i + 1]}).count -= times;
    }
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, Occurrences, PairHash> pairs_;
  std::priority_queue<Candidate> line_;
  std::vector<Pair> fresh_;  ///< pairs that the merge under way made
};

}  // namespace

void VocabularyTraining::add(std::string_view text) {
  Words words(text);
  for (auto word = words.next(); !word.empty(); word = words.next()) ++words_[word];
}

Vocabulary VocabularyTraining::train(std::uint32_t size) const {
  ASSERT(size > kBytes && size <= kVocabularyMax);
  std::vector<Word> words;
  for (const auto& [word, count] : words_) {
    words.push_back({{}, count});
    for (const char c : word) words.back().tokens.push_back(static_cast<unsigned char>(c));
  }
  Corpus corpus(std::move(words));
  std::vector<Merge> merges;
  while (merges.size() < size - kBytes) {
    const Candidate best = corpus.most_frequent();
    if (best.count < kPairCountMin) break;
    corpus.merge(best.pair, static_cast<std::int32_t>(kBytes + merges.size()));
    merges.push_back({best.pair.left, best.pair.right});
  }
  auto made = Vocabulary::make(std::move(merges), "trained vocabulary");
  ASSERT(made.has_value(), "words and counts bound what is merged");
  return std::move(*made);
}

}  // namespace starling::data
