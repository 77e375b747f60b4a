// The two halves of a link's stream: sent bytes until they are taken, and received bytes in any
// order.
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "io/cells.hpp"
#include "io/incoming.hpp"
#include "io/outgoing.hpp"
#include "wire/frame.hpp"

using namespace starling;
using namespace starling::io;

namespace {

base::Bytes bytes(std::size_t size, std::uint8_t first = 0) {
  base::Bytes made(size);
  for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<std::byte>(first + i);
  return made;
}

/// Collects the delivered bytes.
struct Delivered {
  base::Bytes all;
  base::Status operator()(base::ByteView part) {
    all.insert(all.end(), part.begin(), part.end());
    return {};
  }
};

std::string error_of(const base::Status& status) { return status ? "" : status.error().text; }

}  // namespace

BOOST_AUTO_TEST_SUITE(streams)

BOOST_AUTO_TEST_CASE(bytes_are_kept_until_they_are_taken) {
  Outgoing out;
  out.push(bytes(100), wire::Purpose::delta);
  out.push(bytes(50), wire::Purpose::membership);
  BOOST_TEST(out.held() == 150 + 2 * Outgoing::kFrameOverhead);
  BOOST_TEST(out.next().bytes.size() == 100U);
  out.sent(60);
  BOOST_TEST(out.next().bytes.size() == 40U);
  out.sent(40);
  BOOST_TEST((out.next().purpose == wire::Purpose::membership));
  out.sent(50);
  BOOST_TEST(out.drained());
  BOOST_TEST(out.taken(99).has_value());
  BOOST_TEST(out.held() == 150 + 2 * Outgoing::kFrameOverhead);
  BOOST_TEST(out.taken(100).has_value());
  BOOST_TEST(out.held() == 50 + Outgoing::kFrameOverhead);
  out.rewind();
  BOOST_TEST(out.position() == 100U);
  BOOST_TEST(out.next().bytes.size() == 50U);
  BOOST_TEST(out.taken(120).has_value());
  BOOST_TEST(out.next().bytes.size() == 30U);
  BOOST_TEST(out.taken(110).has_value());  // it comes late
  BOOST_TEST(out.taken() == 120U);
}

BOOST_AUTO_TEST_CASE(what_was_not_sent_cannot_be_taken) {
  Outgoing out;
  out.push(bytes(100), wire::Purpose::delta);
  out.sent(10);
  BOOST_TEST(error_of(out.taken(11)).find("not sent") != std::string::npos);
  out.rewind();
  BOOST_TEST(out.taken(10).has_value());  // it was, before
  BOOST_TEST(out.position() == 10U);
}

BOOST_AUTO_TEST_CASE(of_a_stream_that_is_forgotten_nothing_goes_again) {
  Outgoing out;
  out.push(bytes(100), wire::Purpose::delta);
  out.push(bytes(50), wire::Purpose::delta);
  out.sent(60);
  out.clear();
  BOOST_TEST(out.position() == 60U);
  out.rewind();
  BOOST_TEST(out.drained());
  BOOST_TEST(out.position() == 60U);
  BOOST_TEST(out.taken(60).has_value());
  BOOST_TEST(error_of(out.taken(61)).find("not sent") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(no_more_than_the_window_is_under_way) {
  Outgoing out;
  out.push(base::Bytes(3 * kWindow), wire::Purpose::keyframe);
  BOOST_TEST(out.next().bytes.size() == kWindow);
  out.sent(kWindow);
  BOOST_TEST(out.next().bytes.empty());
  BOOST_TEST(!out.drained());
  BOOST_TEST(out.taken(1000).has_value());
  BOOST_TEST(out.next().bytes.size() == 1000U);
}

BOOST_AUTO_TEST_CASE(stretches_in_any_order_and_twice_make_one_stream) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      base::Rng rng(seed);
      const base::Bytes sent = bytes(1000 + rng.below(3000));
      Incoming in;
      Delivered delivered;
      while (in.position() < sent.size()) {
        // Not too far ahead of the due bytes, so that few stretches wait.
        const std::uint64_t ahead = rng.below(3) == 0 ? rng.below(200) : 0;
        const std::uint64_t behind = std::min<std::uint64_t>(rng.below(50), in.position());
        const std::uint64_t offset =
            std::min<std::uint64_t>(in.position() + ahead - behind, sent.size() - 1);
        const std::size_t size = 1 + rng.below(std::min<std::size_t>(300, sent.size() - offset));
        const auto added = in.add(offset, base::ByteView(sent).subspan(offset, size), delivered);
        BOOST_REQUIRE_MESSAGE(added.has_value(), error_of(added));
      }
      BOOST_TEST((delivered.all == sent));
      BOOST_TEST(in.waiting() == 0U);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_comes_early_is_bounded) {
  Incoming in;
  Delivered delivered;
  const base::Bytes part(kCellMax);
  BOOST_TEST(!in.add(kWindow - 1, part, delivered).has_value());
  BOOST_TEST(!in.add(~std::uint64_t{0} - 5, part, delivered).has_value());
  for (std::size_t i = 0; i < Incoming::kStretchesMax; ++i) {
    BOOST_REQUIRE(in.add(10 + 20 * i, bytes(10), delivered).has_value());
  }
  BOOST_TEST(!in.add(10 + 20 * Incoming::kStretchesMax, bytes(10), delivered).has_value());
  Incoming other;
  base::Status status;
  for (int i = 0; i < 10'000 && status; ++i) {
    status = other.add(1 + (static_cast<std::uint64_t>(i) % 2) * kCellMax, part, delivered);
  }
  BOOST_TEST(other.waiting() <= 2 * kWindow);
  BOOST_TEST(delivered.all.empty());
}

BOOST_AUTO_TEST_CASE(cells_come_in_pieces_of_any_size) {
  base::Bytes stream = number_cell(CellType::resume, 77);
  append_cell_header(stream, CellType::data, 300);
  const base::Bytes data = bytes(300);
  stream.insert(stream.end(), data.begin(), data.end());
  const base::Bytes last = number_cell(CellType::taken, 5);
  stream.insert(stream.end(), last.begin(), last.end());
  for (std::size_t piece = 1; piece <= stream.size(); piece += piece < 20 ? 1 : 37) {
    CellReader reader;
    base::Bytes got;
    std::vector<std::uint64_t> numbers;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      base::ByteView view = base::ByteView(stream).subspan(at, std::min(piece, stream.size() - at));
      while (!view.empty()) {
        const auto part = reader.read(view);
        BOOST_REQUIRE(part);
        if (!*part) continue;
        if ((*part)->type == CellType::data) {
          got.insert(got.end(), (*part)->bytes.begin(), (*part)->bytes.end());
        } else {
          numbers.push_back(number_in((*part)->bytes).value());
        }
      }
    }
    BOOST_TEST((got == data));
    BOOST_TEST((numbers == std::vector<std::uint64_t>{77, 5}));
  }
}

BOOST_AUTO_TEST_CASE(cells_and_preambles_that_make_no_sense_are_refused) {
  const auto refused = [](std::vector<std::uint8_t> head) {
    const base::ByteView all = std::as_bytes(std::span(head));
    base::ByteView view = all;
    return !CellReader().read(view).has_value();
  };
  BOOST_TEST(refused({0, 1, 0, 0}));
  BOOST_TEST(refused({8, 1, 0, 0}));
  BOOST_TEST(refused({1, 0, 0, 1}));  // longer than a record
  BOOST_TEST(refused({3, 1, 2, 0}));  // longer than a cell of this type may be
  BOOST_TEST(!number_in(base::Bytes(7)).has_value());
  base::Bytes preamble = encode(Preamble{SessionUse::carrier, 123});
  BOOST_TEST(decode_preamble(preamble)->token == 123U);
  preamble[1] = std::byte{2};
  BOOST_TEST(!decode_preamble(preamble).has_value());
  preamble[1] = std::byte{0};
  preamble[0] = std::byte{wire::kMajorVersion - 1};
  const auto other = decode_preamble(preamble);
  BOOST_REQUIRE(!other);
  BOOST_TEST(other.error().text.find("version") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
