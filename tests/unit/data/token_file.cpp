#include "data/token_file.hpp"

#include <cstring>
#include <filesystem>

#include "data/dataset.hpp"
#include "data/token_set.hpp"
#include "data/vocabulary_training.hpp"
#include "idx_bytes.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling;
using namespace starling::data;
using namespace starling::data::testing;

namespace {

namespace fs = std::filesystem;

const std::string kVerses =
    "the sun and the moon and the stars of the sky and the sea and the land 1 2 3 ";

struct TokenFiles {
  TokenFiles() {
    for (int i = 0; i < 20; ++i) text += kVerses;
    VocabularyTraining training;
    training.add(text);
    vocabulary = training.train(280);
    tokens = vocabulary.encode(text);
    BOOST_REQUIRE(vocabulary.save(folder / "v.json").has_value());
    config.source = "tokens";
    config.path = {folder / "out"};
    config.vocabulary = folder / "v.json";
  }

  std::vector<std::string> write_all(std::uint64_t tokens_a_file) {
    auto writer = TokenWriter::create(folder / "out", vocabulary, tokens_a_file).value();
    const std::span<const std::int32_t> all(tokens);
    BOOST_REQUIRE(writer.add(all.first(100)).has_value());
    BOOST_REQUIRE(writer.add(all.subspan(100)).has_value());
    return writer.finish().value();
  }

  std::vector<std::int32_t> read(const std::vector<std::string>& files) {
    Tokens row;
    std::vector<Storage> storage;
    for (const std::string& path : files) {
      auto file = open_token_file(path, {}).value();
      row.append(file.tokens(), file.header.width);
      storage.push_back(std::move(file.storage));
    }
    std::vector<std::int32_t> out(row.size());
    row.copy(0, 1 << 30, out);
    return out;
  }

  std::string error_of(base::Bytes bytes) {
    write(folder / "file.tokens", bytes);
    const auto file = open_token_file(folder / "file.tokens", {});
    BOOST_REQUIRE(!file.has_value());
    BOOST_TEST((file.error().code == base::ErrorCode::data));
    return file.error().text;
  }

  std::string load_error() {
    const auto dataset = load(config, 8);
    BOOST_REQUIRE(!dataset.has_value());
    return dataset.error().text;
  }

  starling::testing::TemporaryFolder folder;
  std::string text;
  Vocabulary vocabulary;
  std::vector<std::int32_t> tokens;
  Config config;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(token_files, TokenFiles)

BOOST_AUTO_TEST_CASE(tokens_come_back_from_one_file_or_many) {
  const auto one = write_all(kTokensAFile);
  BOOST_TEST(one.size() == 1U);
  BOOST_TEST((read(one) == tokens));
  fs::remove_all(folder / "out");
  const auto many = write_all(64);
  BOOST_TEST(many.size() == (tokens.size() + 63) / 64);
  BOOST_TEST((read(many) == tokens));
  for (const auto& entry : fs::directory_iterator(folder / "out")) {
    BOOST_TEST(entry.path().extension() == ".tokens");
  }
}

BOOST_AUTO_TEST_CASE(large_vocabulary_takes_four_bytes_a_token) {
  std::vector<Merge> merges;
  for (std::int32_t left = 0; left < 256; ++left) {
    for (std::int32_t right = 0; right < 256; ++right) merges.push_back({left, right});
  }
  vocabulary = Vocabulary::make(std::move(merges), "test").value();
  tokens = {0, 65535, 65536, 65791};
  auto writer = TokenWriter::create(folder / "wide", vocabulary).value();
  BOOST_REQUIRE(writer.add(tokens).has_value());
  const auto files = writer.finish().value();
  BOOST_TEST(open_token_file(files[0], {}).value().header.width == 4U);
  BOOST_TEST(read(files) == tokens);
}

BOOST_AUTO_TEST_CASE(writer_that_does_not_finish_leaves_nothing) {
  {
    auto writer = TokenWriter::create(folder / "out", vocabulary, 64).value();
    BOOST_REQUIRE(writer.add(tokens).has_value());
  }
  BOOST_TEST(fs::is_empty(folder / "out"));
  auto writer = TokenWriter::create(folder / "out", vocabulary).value();
  BOOST_TEST(contains(writer.finish().error().text, "the text is empty"));
}

BOOST_AUTO_TEST_CASE(no_file_has_its_name_before_all_are_complete) {
  auto writer = TokenWriter::create(folder / "out", vocabulary, 64).value();
  BOOST_REQUIRE(writer.add(tokens).has_value());
  for (const auto& entry : fs::directory_iterator(folder / "out")) {
    BOOST_TEST(entry.path().extension() == ".partial");
  }
  BOOST_TEST(contains(load_error(), "holds no file that ends in .tokens"));
  const auto files = writer.finish().value();
  BOOST_TEST((read(files) == tokens));
  BOOST_TEST((list_token_files(config.path).value() == files));
}

BOOST_AUTO_TEST_CASE(folder_that_lacks_a_file_is_refused) {
  const auto files = write_all(64);
  BOOST_REQUIRE(files.size() > 3U);
  fs::rename(files[0], files[0] + ".partial");  // as when the names were being given
  BOOST_TEST(contains(load_error(), "out: 00000.tokens is missing"));
  BOOST_TEST(contains(TokenWriter::create(folder / "out", vocabulary).error().text,
                      "holds files of tokens already"));
  fs::rename(files[0] + ".partial", files[0]);
  fs::rename(files[2], folder / "out/more.tokens");
  BOOST_TEST(contains(load_error(), "out: 00002.tokens is missing"));
  // Only named files count, and a user's own names have no numbers.
  config.path = {files[1], files[3], folder / "out/more.tokens"};
  BOOST_TEST(load(config, 8).has_value());
  fs::create_directories(folder / "own/00003");
  fs::rename(files[3], folder / "own/00003/third.tokens");
  fs::rename(files[1], folder / "own/1.tokens");
  config.path = {folder / "own"};
  BOOST_TEST(list_token_files(config.path).value().size() == 2U);
}

BOOST_AUTO_TEST_CASE(what_an_interrupted_writer_left_is_cleared_away) {
  fs::create_directories(folder / "out");
  const std::string left = folder / "out/00007.tokens.partial";
  const std::string other = folder / "out/mine.tokens.partial";
  for (const std::string& path : {left, other}) write(path, base::Bytes(10));
  BOOST_TEST((read(write_all(kTokensAFile)) == tokens));
  BOOST_TEST(!fs::exists(left));
  BOOST_TEST(fs::exists(other));
}

BOOST_AUTO_TEST_CASE(folder_with_tokens_is_not_written_to) {
  write_all(64);
  BOOST_TEST(contains(TokenWriter::create(folder / "out", vocabulary).error().text,
                      "holds files of tokens already"));
}

BOOST_AUTO_TEST_CASE(damaged_file_is_refused) {
  const auto whole = base::read_file(write_all(kTokensAFile)[0], 1 << 20).value();
  BOOST_TEST(contains(error_of({}), "too short"));
  auto bytes = whole;
  bytes[0] = std::byte{'X'};
  BOOST_TEST(contains(error_of(bytes), "is not a file of tokens"));
  BOOST_TEST(contains(error_of({whole.begin(), whole.end() - 2}), "truncated"));
  BOOST_TEST(contains(error_of({whole.begin(), whole.end() - 1}), "truncated"));
  bytes = whole;
  bytes.push_back(std::byte{0});
  bytes.push_back(std::byte{0});
  BOOST_TEST(contains(error_of(bytes), "damaged"));
  bytes = whole;
  bytes.back() ^= std::byte{1};
  BOOST_TEST(contains(error_of(bytes), "do not have the hash"));
  bytes = whole;
  bytes[8] = std::byte{3};
  BOOST_TEST(contains(error_of(bytes), "tokens of 3 bytes"));
  bytes = whole;
  const std::uint32_t fewer = 256;  // no merge is below it
  std::memcpy(bytes.data() + 12, &fewer, sizeof fewer);
  BOOST_TEST(contains(error_of(bytes), "is not below 256, the size of its vocabulary"));
}

BOOST_AUTO_TEST_CASE(encoded_files_are_a_source) {
  write_all(64);
  const Dataset dataset = load(config, 8).value();
  BOOST_TEST(dataset.format().vocabulary == 280U);
  BOOST_TEST((known_format(config, 8) == dataset.format()));
  BatchBuffer batch;
  dataset.train->fill_range(0, 1, batch);
  BOOST_TEST(vocabulary.decode(batch.tokens) == vocabulary.decode(std::span(tokens).first(8)));
  // Bytes that a label of the test set stands for.
  const std::size_t test_tokens =
      static_cast<std::size_t>(static_cast<double>(tokens.size()) * 0.1);
  const auto labels = std::span(tokens).last(test_tokens).subspan(1, 8 * dataset.test->size());
  const double bytes = static_cast<double>(vocabulary.decode(labels).size());
  BOOST_TEST(dataset.bytes_per_label == bytes / static_cast<double>(labels.size()));
  BOOST_TEST(dataset.bytes_per_label > 1.5);
}

BOOST_AUTO_TEST_CASE(wrong_vocabulary_is_refused) {
  write_all(64);
  config.vocabulary.clear();
  BOOST_TEST(contains(load_error(), "another vocabulary (of 280 tokens) than bytes (of 256)"));
  BOOST_REQUIRE(Vocabulary::make({{'a', 'b'}}, "test").value().save(folder / "w.json").has_value());
  config.vocabulary = folder / "w.json";
  BOOST_TEST(contains(load_error(), "set data.vocabulary to the file that `starling data encode`"));
  config.path = {folder / "v.json"};
  config.vocabulary = folder / "v.json";
  BOOST_TEST(contains(load_error(), "v.json: is not a file of tokens"));
  fs::create_directories(folder / "empty");
  config.path = {folder / "empty"};
  BOOST_TEST(contains(load_error(), "holds no file that ends in .tokens"));
}

BOOST_AUTO_TEST_CASE(another_size_than_that_of_the_vocabulary_is_refused) {
  const std::string file = write_all(kTokensAFile).front();
  auto bytes = base::read_file(file, 1 << 20).value();
  const std::uint32_t more = 300;  // tokens above the vocabulary's 280 could be among them
  std::memcpy(bytes.data() + 12, &more, sizeof more);
  write(file, bytes);
  BOOST_TEST(contains(load_error(), "another vocabulary (of 300 tokens) than"));
}

BOOST_AUTO_TEST_CASE(text_is_encoded_when_it_is_loaded_and_kept_in_the_cache) {
  folder.write("a.txt", text.substr(0, 700));
  folder.write("b.txt", text.substr(700));
  config.source = "text";
  config.path = {folder / "a.txt", folder / "b.txt"};
  const std::string cache = folder / "cache";
  BatchBuffer plain;
  load(config, 8).value().train->fill_range(3, 1, plain);
  base::Hash128 identity = load(config, 8).value().identity;
  for (int start = 0; start < 2; ++start) {
    const Dataset dataset = load(config, 8, {cache}).value();
    BatchBuffer batch;
    dataset.train->fill_range(3, 1, batch);
    BOOST_TEST(batch.tokens == plain.tokens);
    BOOST_TEST((dataset.identity == identity));
    BOOST_TEST((dataset.memory_bytes() == 0) == (start == 1));
  }
  // A damaged one is not believed.
  const std::string cached = fs::directory_iterator(cache)->path();
  auto bytes = base::read_file(cached, 1 << 20).value();
  bytes.back() ^= std::byte{1};
  write(cached, bytes);
  BOOST_TEST(load(config, 8, {cache}).value().memory_bytes() > 0U);
  BOOST_TEST(load(config, 8, {cache}).value().memory_bytes() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
