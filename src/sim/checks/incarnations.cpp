// Only the owner of an incarnation raises it.
#include <algorithm>
#include <variant>
#include <vector>

#include "sim/checks/check.hpp"
#include "wire/messages.hpp"

namespace starling::sim {
namespace {

class Incarnations final : public Check {
 public:
  explicit Incarnations(const Scene& scene) : subjects_(scene.subjects), alarm_(scene.alarm) {}

  void started(const Node& node) override;
  void sent(const Node& from, const wire::Message& message) override;

 private:
  void check(const Node& from, const wire::MemberRecord& record);
  [[nodiscard]] std::uint64_t& told_by(std::uint32_t subject);

  Subjects& subjects_;
  Alarm& alarm_;
  std::vector<std::uint64_t> told_;  ///< by subject: the highest that it told about itself
};

void Incarnations::started(const Node& node) {
  std::uint64_t& told = told_by(subjects_.own(node));
  told = std::max(told, node.incarnation);
}

void Incarnations::sent(const Node& from, const wire::Message& message) {
  if (const auto* gossip = std::get_if<wire::Gossip>(&message)) {
    for (const wire::MemberRecord& record : gossip->members) check(from, record);
  } else if (const auto* hello = std::get_if<wire::Hello>(&message)) {
    check(from, hello->self);
  }
}

void Incarnations::check(const Node& from, const wire::MemberRecord& record) {
  const std::uint32_t subject = subjects_.number_of(record.id);
  std::uint64_t& told = told_by(subject);
  if (record.id == from.id) told = std::max(told, record.incarnation);
  if (record.incarnation > told) {
    alarm_.raise("peer-{} tells incarnation {} of peer-{}, which only told {}", from.peer,
                 record.incarnation, subjects_[subject].node, told);
  }
}

std::uint64_t& Incarnations::told_by(std::uint32_t subject) {
  if (subject >= told_.size()) told_.resize(subjects_.size());
  return told_[subject];
}

}  // namespace

std::unique_ptr<Check> make_incarnations(const Scene& scene) {
  return std::make_unique<Incarnations>(scene);
}

}  // namespace starling::sim
