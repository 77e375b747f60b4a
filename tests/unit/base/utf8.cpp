#include "base/utf8.hpp"

#include <string>

#include <boost/test/unit_test.hpp>

using starling::base::is_utf8;
using starling::base::next_utf8;
using Kind = starling::base::Utf8Piece::Kind;

BOOST_AUTO_TEST_SUITE(utf8)

BOOST_AUTO_TEST_CASE(characters_of_all_lengths_are_utf8_and_a_part_of_one_is_not) {
  for (const std::string text : {"", "a", "\u00F8", "\u2248", "\uFFFF", "\U0001F426", "\U0010FFFF",
                                 "In the beginning\n\u03C0 \u2248 3"}) {
    BOOST_TEST(is_utf8(text), text);
  }
  for (const std::string character : {"\u00F8", "\u2248", "\U0001F426"}) {
    BOOST_TEST((next_utf8(character + "a").kind == Kind::whole));
    BOOST_TEST(next_utf8(character + "a").size == character.size());
    for (std::size_t size = 1; size < character.size(); ++size) {
      BOOST_TEST(!is_utf8("a" + character.substr(0, size)));
      BOOST_TEST((next_utf8(character.substr(0, size)).kind == Kind::begun));
      BOOST_TEST((next_utf8(character.substr(0, size) + "a").kind == Kind::wrong));
    }
  }
}

BOOST_AUTO_TEST_CASE(surrogates_overlong_forms_and_what_is_beyond_unicode_are_not_utf8) {
  for (const std::string text :
       {"\x80", "\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "caf\xE9"}) {
    BOOST_TEST(!is_utf8(text));
  }
}

BOOST_AUTO_TEST_SUITE_END()
