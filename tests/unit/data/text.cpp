// The source "text".
#include <filesystem>

#include "data/dataset.hpp"
#include "data/sharding.hpp"
#include "data/vocabulary.hpp"
#include "idx_bytes.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling::data;
using namespace starling::data::testing;

namespace {

struct TextFiles {
  TextFiles() {
    folder.write("a.txt", "abcdefghij");
    folder.write("b.txt", std::string(90, 'x'));
    config.source = "text";
    config.path = {folder / "a.txt", folder / "b.txt"};
  }

  Dataset loaded(std::uint32_t context = 5) {
    auto dataset = load(config, context);
    BOOST_REQUIRE_MESSAGE(dataset.has_value(), (dataset ? "" : dataset.error().text));
    return std::move(*dataset);
  }
  std::string error(std::uint32_t context = 5) {
    const auto dataset = load(config, context);
    BOOST_REQUIRE(!dataset.has_value());
    return dataset.error().text;
  }
  static std::string text_of(const SampleSet& set, std::uint32_t index) {
    BatchBuffer batch;
    set.fill_range(index, 1, batch);
    return {batch.tokens.begin(), batch.tokens.end()};
  }

  starling::testing::TemporaryFolder folder;
  Config config;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(text, TextFiles)

BOOST_AUTO_TEST_CASE(bytes_are_tokens_and_files_follow_each_other) {
  const Dataset dataset = loaded();
  BOOST_TEST(dataset.format().vocabulary == 256U);
  BOOST_TEST(dataset.format().classes == 256U);
  BOOST_TEST(dataset.bytes_per_label == 1.0);
  BOOST_TEST((known_format(config, 5) == dataset.format()));
  BOOST_TEST(!known_format(config, 0).has_value());
  BOOST_TEST(text_of(*dataset.train, 0) == "abcde");
  BOOST_TEST(text_of(*dataset.train, 1) == "fghij");
  BOOST_TEST(text_of(*dataset.train, 2) == "xxxxx");
}

BOOST_AUTO_TEST_CASE(end_of_the_text_is_kept_for_evaluation) {
  folder.write("b.txt", std::string(80, 'x') + "0123456789");
  config.test_fraction = 0.1;
  const Dataset dataset = loaded(4);
  BOOST_TEST(dataset.train->size() == 21U);  // of 90 tokens
  BOOST_TEST(dataset.test->size() == 2U);
  BOOST_TEST(text_of(*dataset.test, 0) == "0123");
  BOOST_TEST(text_of(*dataset.test, 1) == "4567");
  BatchBuffer batch;
  for (std::uint32_t shift = 0; shift < 4; ++shift) {
    for (std::uint32_t i = 0; i < dataset.train->size(); ++i) {
      dataset.train->fill(std::vector{i}, std::vector{shift}, batch);
      for (const std::int32_t label : batch.labels) BOOST_REQUIRE(label >= 'a');
    }
  }
}

BOOST_AUTO_TEST_CASE(files_of_their_own_are_evaluated_on_whole) {
  folder.write("test.txt", "0123456789");
  config.test_path = {folder / "test.txt"};
  const Dataset dataset = loaded();
  BOOST_TEST(dataset.train->size() == 19U);
  BOOST_TEST(dataset.test->size() == 1U);
  BOOST_TEST(text_of(*dataset.test, 0) == "01234");
}

BOOST_AUTO_TEST_CASE(folder_stands_for_its_files_in_order) {
  std::filesystem::create_directories(folder / "sub/.hidden");
  folder.write("sub/2", std::string(40, 'z'));
  folder.write("sub/10", "01234");
  folder.write("sub/.hidden/9", "not this");
  folder.write("sub/.9", "nor this");
  config.path = {folder / "sub"};
  const Dataset dataset = loaded(3);
  BOOST_TEST(text_of(*dataset.train, 0) == "012");
  BOOST_TEST(text_of(*dataset.train, 1) == "34z");
  std::filesystem::create_directories(folder / "empty");
  config.path = {folder / "empty"};
  BOOST_TEST(contains(error(), "empty: holds no file"));
}

BOOST_AUTO_TEST_CASE(identity_follows_content_and_split) {
  const auto before = loaded().identity;
  BOOST_TEST((loaded().identity == before));
  BOOST_TEST((loaded(4).identity == before));  // the context is the model's
  config.test_fraction = 0.2;
  BOOST_TEST((loaded().identity != before));
  config.test_fraction = 0.1;
  folder.write("a.txt", "abcdefghiJ");
  BOOST_TEST((loaded().identity != before));
}

BOOST_AUTO_TEST_CASE(identity_of_private_text_is_that_of_its_form_and_its_tokens) {
  config.split = Split::private_data;
  config.vocabulary = folder / "v.json";
  const auto of_merge = [&](Merge merge) {
    BOOST_TEST_REQUIRE(Vocabulary::make({merge}, "v")->save(config.vocabulary).has_value());
    return loaded().identity;
  };
  const auto before = of_merge({'a', 'b'});
  folder.write("b.txt", std::string(80, 'y'));
  BOOST_TEST((of_merge({'a', 'b'}) == before));
  BOOST_TEST((of_merge({'a', 'c'}) != before));  // the same number of tokens, with other meanings
  config.vocabulary.clear();
  BOOST_TEST((loaded().identity != before));
}

BOOST_AUTO_TEST_CASE(windows_are_shared_out_like_any_samples) {
  const Dataset dataset = loaded();
  const Shards shards(dataset.train->size(), dataset.train->labels(), config, 3);
  BOOST_TEST(shards.count() == dataset.train->size());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_trained_on_is_explained) {
  BOOST_TEST(contains(error(0), "the model takes none: use model.preset = \"gpt\""));
  BOOST_TEST(contains(error(60), "has 90 tokens, but a context of 60 needs at least 120"));
  BOOST_TEST(contains(error(30), "to evaluate on: has 10 tokens"));
  for (const Split split : {Split::stratified, Split::dirichlet}) {
    config.split = split;
    BOOST_TEST(contains(error(), "use data.split = \"iid\""));
  }
  config.split = Split::iid;
  config.augmentation.flip = true;
  BOOST_TEST(contains(error(), "data.crop and data.flip change images"));
  config.augmentation.flip = false;
  config.path = {folder / "none.txt"};
  BOOST_TEST(contains(error(), "none.txt: cannot be opened"));
  config.path = {};
  BOOST_TEST(contains(error(), "needs data.path"));
  folder.write("empty.txt", "");
  config.path = {folder / "empty.txt"};
  BOOST_TEST(contains(error(), "has 0 tokens"));
}

BOOST_AUTO_TEST_SUITE_END()
