#include "report/page.hpp"

#include <regex>
#include <string>

#include <boost/test/unit_test.hpp>

using starling::report::page_file;

BOOST_AUTO_TEST_SUITE(page)

BOOST_AUTO_TEST_CASE(files_that_the_page_names_are_there) {
  const auto page = page_file("/");
  BOOST_REQUIRE(page);
  BOOST_TEST(page->content.starts_with("<!doctype html>"));
  const std::string html(page->content);
  const std::regex named("(?:src|href)=\"([a-z]+\\.[a-z]+)\"");
  std::size_t count = 0;
  for (std::sregex_iterator it(html.begin(), html.end(), named), end; it != end; ++it, ++count) {
    const auto file = page_file("/" + (*it)[1].str());
    BOOST_REQUIRE_MESSAGE(file, (*it)[1]);
    BOOST_TEST(!file->content.empty());
  }
  BOOST_TEST(count >= 3U);
}

// A peer's answers forbid all other sources, so the page would lack them.
BOOST_AUTO_TEST_CASE(nothing_is_loaded_from_elsewhere_or_written_inline) {
  const std::string html(page_file("/")->content);
  BOOST_TEST(!std::regex_search(html, std::regex("(?:src|href)=\"(?:https?:|//|data:)")));
  BOOST_TEST(!std::regex_search(html, std::regex("<script>|<style|style=\"|onclick")));
  BOOST_TEST(page_file("/page.js")->content.find("innerHTML") == std::string_view::npos);
}

BOOST_AUTO_TEST_CASE(other_paths_are_none_of_its_files) {
  for (const char* path : {"", "/index.html", "/page", "/../page.js", "/status"}) {
    BOOST_TEST(!page_file(path));
  }
}

BOOST_AUTO_TEST_SUITE_END()
