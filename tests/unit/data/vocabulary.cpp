#include "data/vocabulary.hpp"

#include <map>

#include "base/rng.hpp"
#include "data/vocabulary_training.hpp"
#include "data/words.hpp"
#include "idx_bytes.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling;
using namespace starling::data;
using namespace starling::data::testing;

namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> all;
  Words words(text);
  for (auto word = words.next(); !word.empty(); word = words.next()) all.emplace_back(word);
  return all;
}

using Strings = std::vector<std::string>;

Vocabulary trained(std::string_view text, std::uint32_t size) {
  VocabularyTraining training;
  training.add(text);
  return training.train(size);
}

/// The definition, word for word: counts all pairs anew for every merge.
std::vector<Merge> plain_training(std::string_view text, std::size_t merges) {
  std::vector<std::vector<std::int32_t>> words;
  for (const std::string& word : words_of(text)) {
    words.emplace_back();
    for (const char c : word) words.back().push_back(static_cast<unsigned char>(c));
  }
  std::vector<Merge> made;
  while (made.size() < merges) {
    std::map<std::pair<std::int32_t, std::int32_t>, int> counts;
    for (const auto& word : words) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
    }
    auto best = counts.end();
    for (auto at = counts.begin(); at != counts.end(); ++at) {
      if (at->second >= 2 && (best == counts.end() || at->second > best->second)) best = at;
    }
    if (best == counts.end()) break;
    const auto [left, right] = best->first;
    for (auto& word : words) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] != left || word[i + 1] != right) continue;
        word[i] = static_cast<std::int32_t>(256 + made.size());
        word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
    made.push_back({left, right});
  }
  return made;
}

std::string random_text(std::size_t size, std::uint64_t seed) {
  base::Rng rng(seed);
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text += "aaabbc  \n1.'t\xc3\xa9"[rng.below(15)];
  }
  return text;
}

std::string error_of(const std::vector<Merge>& merges) {
  const auto made = Vocabulary::make(merges, "file");
  BOOST_REQUIRE(!made.has_value());
  return made.error().text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(words)

BOOST_AUTO_TEST_CASE(text_is_cut_as_gpt2_cuts_it) {
  BOOST_TEST(words_of("Hello world") == (Strings{"Hello", " world"}));
  BOOST_TEST(words_of("it's we'll 'tis") == (Strings{"it", "'s", " we", "'ll", " '", "tis"}));
  BOOST_TEST(words_of("in 1611, ok!?") == (Strings{"in", " 1611", ",", " ok", "!?"}));
  BOOST_TEST(words_of("a  b   c") == (Strings{"a", " ", " b", "  ", " c"}));
  BOOST_TEST(words_of("a\n\nb\n") == (Strings{"a", "\n", "\n", "b", "\n"}));
  BOOST_TEST(words_of("a \n\t ") == (Strings{"a", " \n\t "}));
  BOOST_TEST(words_of("caf\xc3\xa9s \xe4\xbd\xa0") == (Strings{"caf\xc3\xa9s", " \xe4\xbd\xa0"}));
  BOOST_TEST(words_of("").empty());
}

BOOST_AUTO_TEST_CASE(words_are_the_text_and_none_is_long) {
  for (const std::string& text :
       {random_text(5000, 1), std::string(1000, 'x'), std::string(1000, ' '),
        " " + std::string(300, 'y') + "z", std::string(129, ' ') + "a"}) {
    std::string all;
    for (const std::string& word : words_of(text)) {
      BOOST_TEST(word.size() <= kWordBytesMax);
      all += word;
    }
    BOOST_TEST((all == text));
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(vocabulary)

BOOST_AUTO_TEST_CASE(training_makes_the_merges_that_its_definition_says) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      const std::string text = random_text(50 << (seed % 6), seed);
      const auto expected = plain_training(text, 60);
      const Vocabulary made = trained(text, 256 + 60);
      BOOST_TEST((made.merges() == expected));
    }
  }
}

BOOST_AUTO_TEST_CASE(frequent_words_become_tokens) {
  // "ab" comes four times; "abc" and " ab" twice.
  const Vocabulary made = trained("abc ab abc ab", 300);
  BOOST_TEST(made.text(256) == "ab");
  BOOST_TEST((made.merges()[0] == Merge{'a', 'b'}));
  BOOST_TEST(made.size() < 300U);  // nothing comes twice any more
}

BOOST_AUTO_TEST_CASE(texts_count_together_and_their_order_does_not_matter) {
  const std::string a = random_text(700, 3);
  const std::string b = random_text(700, 4);
  VocabularyTraining ab;
  ab.add(a);
  ab.add(b);
  VocabularyTraining ba;
  ba.add(b);
  ba.add(a);
  BOOST_TEST((ab.train(320).hash() == ba.train(320).hash()));
}

BOOST_AUTO_TEST_CASE(what_is_encoded_decodes_to_the_same_bytes) {
  const Vocabulary made = trained(random_text(3000, 5), 400);
  for (std::uint64_t seed = 10; seed < 20; ++seed) {
    const std::string text = random_text(300, seed);
    const auto tokens = made.encode(text);
    BOOST_TEST(tokens.size() < text.size());
    BOOST_TEST(made.decode(tokens) == text);
  }
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  BOOST_TEST((made.decode(made.encode(bytes)) == bytes));
  BOOST_TEST((Vocabulary().decode(Vocabulary().encode(bytes)) == bytes));
  BOOST_TEST(Vocabulary().encode(bytes).size() == 256U);
}

BOOST_AUTO_TEST_CASE(earlier_merges_go_first) {
  // bc (256) is in the text before ab (257): "abc" is a, bc.
  const auto made = Vocabulary::make({{'b', 'c'}, {'a', 'b'}, {'x', 256}}, "test").value();
  BOOST_TEST(made.encode("abcab") == (std::vector<std::int32_t>{'a', 256, 257}));
  BOOST_TEST(made.encode("xbc") == std::vector<std::int32_t>{258});
  BOOST_TEST(made.text(258) == "xbc");
}

BOOST_AUTO_TEST_CASE(token_of_no_vocabulary_decodes_to_the_replacement_character) {
  const Vocabulary made = trained("aaaa aaaa", 257);
  const std::vector<std::int32_t> tokens{'a', 257, -1, 'b'};
  BOOST_TEST(made.decode(tokens) ==
             "a\xef\xbf\xbd\xef\xbf\xbd"
             "b");
}

BOOST_AUTO_TEST_CASE(file_holds_the_vocabulary) {
  starling::testing::TemporaryFolder folder;
  const Vocabulary made = trained(random_text(3000, 6), 330);
  BOOST_REQUIRE(made.save(folder / "v.json").has_value());
  const auto again = Vocabulary::load(folder / "v.json");
  BOOST_REQUIRE(again.has_value());
  BOOST_TEST((again->hash() == made.hash()));
  BOOST_TEST((again->merges() == made.merges()));
  Config config;
  BOOST_TEST(load_vocabulary(config).value().size() == 256U);
  config.vocabulary = folder / "v.json";
  BOOST_TEST((load_vocabulary(config).value().hash() == made.hash()));
}

BOOST_AUTO_TEST_CASE(file_that_is_no_vocabulary_is_refused) {
  starling::testing::TemporaryFolder folder;
  for (const char* text :
       {"", "{", "[]", "{\"merges\": []}", "{\"format\": \"starling vocabulary 1\"}",
        "{\"format\": 3, \"merges\": []}",
        "{\"format\": \"starling vocabulary 1\", \"merges\": [[1]]}",
        "{\"format\": \"starling vocabulary 1\", \"merges\": [[1, -2]]}",
        "{\"format\": \"starling vocabulary 1\", \"merges\": [[1, 2.5]]}",
        "{\"format\": \"starling vocabulary 1\", \"merges\": [[1, 99999999999]]}"}) {
    folder.write("v.json", text);
    const auto loaded = Vocabulary::load(folder / "v.json");
    BOOST_REQUIRE(!loaded.has_value());
    BOOST_TEST(contains(loaded.error().text, "v.json: is not a vocabulary"));
  }
  const std::string format = "{\"format\": \"starling vocabulary 1\", ";
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  for (const std::string& text :
       {deep, "{\"format\": " + deep + ", \"merges\": []}", format + "\"merges\": " + deep + "}",
        format + "\"merges\": [" + deep + "]}", format + "\"merges\": [], \"merges\": []}",
        format + "\"merges\": [[1, 2, 3]]}", format + "\"merges\": [[1, 1048576]]}",
        format + "\"merges\": [1, 2]}", format + "\"merges\": {}}", format + "\"merges\": []} []",
        std::string("{\"merges\": \"starling vocabulary 1\"}")}) {
    folder.write("v.json", text);
    const auto loaded = Vocabulary::load(folder / "v.json");
    BOOST_REQUIRE(!loaded.has_value());
    BOOST_TEST(contains(loaded.error().text, "v.json: is not a vocabulary"));
  }
  folder.write("v.json", std::string(60 << 20, ' '));
  BOOST_TEST(contains(Vocabulary::load(folder / "v.json").error().text, "at most 50331648"));
  folder.write("v.json",
               "{\n\"merges\": [\n [\n 104,\n 101\n ]\n],\n" + format.substr(1, 33) + "}");
  BOOST_TEST(Vocabulary::load(folder / "v.json").value().text(256) == "he");
  BOOST_TEST(contains(Vocabulary::load(folder / "none").error().text, "cannot be opened"));
  Config config;
  config.vocabulary = folder / "none";
  BOOST_TEST(contains(load_vocabulary(config).error().text, "data.vocabulary: "));
}

BOOST_AUTO_TEST_CASE(merges_that_make_no_sense_are_refused) {
  BOOST_TEST(contains(error_of({{'a', 256}}), "token 256 merges 97 and 256, which do not come"));
  BOOST_TEST(contains(error_of({{-1, 'b'}}), "which do not come before it"));
  BOOST_TEST(contains(error_of({{'a', 'b'}, {'a', 'b'}}), "as another one does"));
  std::vector<Merge> towers{{'a', 'a'}};
  for (std::int32_t i = 0; i < 7; ++i) towers.push_back({256 + i, 256 + i});
  BOOST_TEST(contains(error_of(towers), "token 263 has 256 bytes, at most 128"));
}

BOOST_AUTO_TEST_SUITE_END()
