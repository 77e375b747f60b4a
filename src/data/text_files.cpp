#include "data/text_files.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "data/config.hpp"

namespace starling::data {
namespace {

namespace fs = std::filesystem;
using base::ErrorCode;
using base::fail;

base::Result<std::vector<std::string>> list_folder(const std::string& folder,
                                                   std::string_view suffix) {
  std::vector<std::string> files;
  std::error_code failed;
  fs::recursive_directory_iterator at(folder, failed);
  for (; !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with('.')) {
      at.disable_recursion_pending();
    } else if (at->is_regular_file(failed) && name.ends_with(suffix)) {
      files.push_back(at->path().string());
    }
    if (files.size() > kPathsMax) break;
  }
  if (failed) return fail(ErrorCode::data, "{}: cannot be listed: {}", folder, failed.message());
  std::ranges::sort(files);
  return files;
}

}  // namespace

base::Result<std::vector<std::string>> list_files(
    std::span<const std::string> paths, std::string_view suffix,
    const std::function<base::Status(std::span<const std::string>)>& check_folder) {
  std::vector<std::string> all;
  for (const std::string& path : paths) {
    std::error_code ignored;
    std::vector<std::string> files{path};
    const bool is_folder = fs::is_directory(path, ignored);
    if (is_folder) {
      auto listed = list_folder(path, suffix);
      if (!listed) return listed;
      files = std::move(*listed);
      if (files.empty()) {
        return fail(ErrorCode::data, "{}: holds no file{}", path,
                    suffix.empty() ? "" : fmt::format(" that ends in {}", suffix));
      }
    }
    all.insert(all.end(), files.begin(), files.end());
    if (all.size() > kPathsMax) {
      return fail(ErrorCode::data, "{}: more than {} files: put them together", path, kPathsMax);
    }
    if (is_folder && check_folder) {
      if (auto checked = check_folder(files); !checked) return fail(checked.error());
    }
  }
  if (all.empty()) return fail(ErrorCode::data, "no file is given");
  return all;
}

}  // namespace starling::data
