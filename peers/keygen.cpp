// starling keygen: the secret of a swarm that is not open to all.

#include <fmt/core.h>

#include "commands.hpp"
#include "complain.hpp"
#include "io/secret.hpp"

namespace starling::peers {

int run_keygen(const KeygenOptions& options) {
  if (const auto created = io::Secret::create(options.out); !created) {
    return complain("keygen", created.error());
  }
  fmt::print(
      "{}: a new secret. With --set security.secret=FILE, or so in the run file, a peer links "
      "only with peers that have the same one.\n",
      options.out);
  return 0;
}

}  // namespace starling::peers
