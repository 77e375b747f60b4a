#include "report/page.hpp"

#include "page_generated.hpp"

namespace starling::report {
namespace {

struct Entry {
  std::string_view path;
  PageFile file;
};

constexpr Entry kFiles[] = {
    {"/", {"text/html; charset=utf-8", generated::index_html}},
    {"/icon.svg", {"image/svg+xml", generated::icon_svg}},
    {"/page.css", {"text/css; charset=utf-8", generated::page_css}},
    {"/page.js", {"text/javascript; charset=utf-8", generated::page_js}},
};

}  // namespace

std::optional<PageFile> page_file(std::string_view path) noexcept {
  for (const Entry& entry : kFiles) {
    if (entry.path == path) return entry.file;
  }
  return std::nullopt;
}

}  // namespace starling::report
