// starling check: the needs of a run file, before anything is started.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "commands.hpp"
#include "complain.hpp"
#include "compute/program.hpp"
#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "data/sample_order.hpp"
#include "io/secret.hpp"
#include "membership/limits.hpp"
#include "model/model.hpp"
#include "report/format.hpp"
#include "runfile/build_model.hpp"
#include "runfile/reference.hpp"
#include "runfile/run_file.hpp"
#include "runtime/needs.hpp"
#include "runtime/problem.hpp"
#include "runtime/run.hpp"
#include "train/trainer.hpp"

namespace starling::peers {
namespace {

using base::ErrorCode;
using base::fail;
using report::format_bytes;
using report::format_count;

/// Facts about the data: all of them, or, if its files are missing, those that its source tells.
struct Data {
  std::optional<base::Error> missing;
  data::SampleFormat format;
  std::uint64_t training_set = 0;  ///< samples; 0: not known
  std::uint64_t memory = 0;        ///< bytes, with the order of samples, without batches
  std::string odd_label;           ///< the oddity of the highest label, if any
};

/// A label far above all others makes classes that nothing belongs to: usually this is damage.
std::string find_odd_label(const data::Dataset& dataset) {
  std::int32_t highest = -1;
  std::int32_t next = -1;
  std::uint64_t count = 0;  ///< samples with the highest
  for (const data::SampleSet* set : {dataset.train.get(), dataset.test.get()}) {
    for (const std::int32_t label : set->labels()) {
      if (label > highest) {
        next = std::exchange(highest, label);
        count = 0;
      }
      if (label < highest) next = std::max(next, label);
      count += label == highest ? 1 : 0;
    }
  }
  if (highest - next <= 1) return "";
  return fmt::format("; {} sample{} the highest label, {}, and the next is {}", format_count(count),
                     count == 1 ? " has" : "s have", highest, next);
}

/// A cache would save the next check the reading, but a check leaves no files behind.
void tell_of_reading(const std::string& path, std::uint64_t bytes) {
  tell_of_long_read(path, bytes);
  say("(every check does, in search of damage; a peer remembers that it has)\n");
}

base::Result<Data> look_at_data(const runfile::RunFile& run_file) {
  const std::uint32_t context = model::context_of(run_file.model);
  const auto dataset = data::load(run_file.data, context, {.on_long_read = tell_of_reading});
  if (dataset) {
    return Data{.missing = {},
                .format = dataset->format(),
                .training_set = dataset->train->size(),
                .memory = dataset->memory_bytes() +
                          data::order_bytes(dataset->train->size(), run_file.data.split),
                .odd_label = find_odd_label(*dataset)};
  }
  const base::Error error = runtime::with_folder(dataset.error(), run_file.data);
  if (error.code != ErrorCode::data) return fail(error);
  const auto format = data::known_format(run_file.data, context);
  if (!format) return fail(error);
  return Data{.missing = error, .format = *format, .odd_label = {}};
}

/// "4.41 MFLOP".
std::string format_flops(double flops) {
  static constexpr std::array kUnits{"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  std::size_t unit = 0;
  while (flops >= 999.5 && unit + 1 < kUnits.size()) {
    flops /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", flops, kUnits[unit]);
}

/// Facts about the device that the run file names.
struct Chosen {
  std::string about;
  bool has_bfloat16 = false;
};

void print_memory(const runfile::RunFile& run_file, const runtime::Needs& needs) {
  const std::string gpu =
      needs.on_gpu ? fmt::format(", and {} of the GPU's", format_bytes(needs.gpu_memory())) : "";
  fmt::print("memory       {}{} a peer{}\n", needs.compiled ? "" : "at least ",
             format_bytes(needs.memory()), gpu);
  const auto part = [](const char* name, std::uint64_t bytes, bool on_gpu,
                       const std::string& what) {
    fmt::print("  {:<11}{:>8}  {}{}\n", name, format_bytes(bytes), what,
               on_gpu ? "; the GPU's" : "");
  };
  part("initial", needs.initial, false, "parameters that the run starts with");
  part("replica", needs.replica, needs.on_device, "parameters as trained, and what is held back");
  std::string mirrors = "none";
  if (needs.mirrors > 0) {
    const std::uint32_t links = runtime::links_of(run_file);
    const std::string hub =
        run_file.swarm.hub.empty()
            ? ""
            : fmt::format(" (up to {} at {})", membership::kDegreeMax, run_file.swarm.hub);
    mirrors = fmt::format(
        "two{} for {}{}; those of broken links may add {} for {}",
        exchange::has_momentum(run_file.exchange) ? " and a momentum" : "",
        links == 1 ? "its neighbour" : fmt::format("each of {} neighbours", links), hub,
        format_bytes(needs.grace), report::format_duration(base::seconds(run_file.exchange.grace)));
  }
  part("mirrors", needs.mirrors, needs.on_device, mirrors);
  if (needs.deltas > 0) {
    part("deltas", needs.deltas, needs.on_device,
         fmt::format("{} for each neighbour, and what making them takes",
                     needs.on_device ? "three" : "two"));
  }
  if (needs.ring > 0) {
    part("ring", needs.ring, false,
         "what is averaged, the last means, and what comes early, with buffers");
  }
  part("training", needs.training, needs.on_device, "gradient and the optimizer's state");
  part("activations", needs.activations, needs.on_gpu,
       fmt::format("of {} samples at a time, with work space",
                   train::compile_options(run_file.train).batch));
  part("saving", needs.saving, false,
       needs.on_device ? "parameters and the optimizer's state on their way to a checkpoint"
                       : "parameters as they are evaluated and saved");
  part("data", needs.data, false, "samples in memory, their order, and batches filled ahead");
}

void print_exchange(const runfile::RunFile& run_file, const runtime::Needs& needs) {
  if (exchange::uses_ring(run_file.exchange.mode)) {
    const bool rounds = run_file.exchange.mode == exchange::Mode::local;
    fmt::print("all-reduce   about {} sent by a peer every {}\n", format_bytes(needs.exchange),
               rounds ? fmt::format("{} steps", run_file.exchange.every) : "step");
  } else if (needs.exchange != 0) {
    fmt::print("exchange     about {} each way, every {} steps on each link, at a density of {}\n",
               format_bytes(needs.exchange), run_file.exchange.every, run_file.exchange.density);
    fmt::print("keyframe     {} once, where a link opens between different replicas\n",
               format_bytes(needs.keyframe));
  } else {
    fmt::print("exchange     none\n");
  }
}

void print_text(const runfile::RunFile& run_file, const Chosen& device, const Data& data,
                const model::Model& model, const runtime::Needs& needs) {
  const std::string samples =
      run_file.run.samples == 0 && data.training_set == 0
          ? fmt::format("{} epochs", run_file.run.epochs)
          : format_count(runfile::target_samples(run_file, data.training_set)) + " samples";
  fmt::print("run {}: {} of {} over the swarm\n\n{}\n", run_file.run.name, samples,
             run_file.data.source, model.table());
  fmt::print("parameters   {} ({}){}\n", format_count(needs.parameters),
             format_bytes(needs.parameters * sizeof(float)),
             run_file.init.empty() ? "" : ", which start as in " + run_file.init);
  if (needs.buffers != 0) {
    const std::string sent =
        exchange::uses_links(run_file.exchange.mode)
            ? fmt::format(", sent every {} exchanges", run_file.exchange.buffers_every)
            : "";
    fmt::print("buffers      {} ({}){}\n", format_count(needs.buffers),
               format_bytes(needs.buffers * sizeof(float)), sent);
  }
  fmt::print("operations   {} a sample of an evaluation, {} of a training step\n",
             format_flops(needs.forward_flops), format_flops(needs.training_flops));
  fmt::print("device       {}{}\n", run_file.train.device,
             device.about.empty() ? "" : " (" + device.about + ")");
  if (run_file.train.precision == compute::Precision::bfloat16) {
    fmt::print("precision    {}\n", device.has_bfloat16
                                        ? "bf16: products take bfloat16, sums are float32"
                                        : "float32: this device gains nothing from bf16");
  }
  if (!needs.slow_ops.empty()) {
    fmt::print("slow layers  {}: its libraries have no fast kernel for them\n",
               fmt::join(needs.slow_ops, ", "));
  }
  print_memory(run_file, needs);
  print_exchange(run_file, needs);
}

nlohmann::json tensors_json(const std::vector<compute::Tensor>& tensors) {
  nlohmann::json out = nlohmann::json::array();
  for (const compute::Tensor& tensor : tensors) {
    out.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
  }
  return out;
}

void print_json(const runfile::RunFile& run_file, const Chosen& device, const Data& data,
                const model::Model& model, const runtime::Needs& needs) {
  nlohmann::json layers = nlohmann::json::array();
  for (const compute::Op& op : model.graph.ops) {
    layers.push_back({{"name", op.name},
                      {"type", compute::name_of(op)},
                      {"in", op.in},
                      {"out", op.out},
                      {"parameters", model::parameters_of(model.graph, op)}});
  }
  nlohmann::json target;  // null if it depends on a data set that is not here
  if (run_file.run.samples != 0 || data.training_set != 0) {
    target = runfile::target_samples(run_file, data.training_set);
  }
  const bool rounds =
      run_file.train.precision == compute::Precision::bfloat16 && device.has_bfloat16;
  const nlohmann::json out{{"run", run_file.run.name},
                           {"target_samples", target},
                           {"layers", layers},
                           {"tensors", tensors_json(model.graph.tensors)},
                           {"buffer_tensors", tensors_json(model.graph.buffers)},
                           {"parameters", needs.parameters},
                           {"buffers", needs.buffers},
                           {"forward_flops", needs.forward_flops},
                           {"training_flops", needs.training_flops},
                           {"device",
                            {{"name", run_file.train.device},
                             {"about", device.about},
                             {"precision", rounds ? "bf16" : "float32"},
                             {"slow_layers", needs.slow_ops}}},
                           {"exchange_bytes", needs.exchange},
                           {"keyframe_bytes", needs.keyframe},
                           {"memory_bytes",
                            {{"total", needs.memory()},
                             {"gpu", needs.gpu_memory()},
                             {"initial", needs.initial},
                             {"replica", needs.replica},
                             {"mirrors", needs.mirrors},
                             {"mirrors_in_grace", needs.grace},
                             {"deltas", needs.deltas},
                             {"ring", needs.ring},
                             {"training", needs.training},
                             {"activations", needs.activations},
                             {"saving", needs.saving},
                             {"data", needs.data}}}};
  fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

/// Names the device that "auto" chooses.
base::Result<Chosen> choose_device(runfile::RunFile& run_file) {
  const auto device = compute::open_device(run_file.train.device);
  if (!device) return fail(device.error());
  run_file.train.device = device->name;
  return Chosen{device->about, device->backend->has_bfloat16()};
}

/// The exit code.
base::Result<int> check(const CheckOptions& options) {
  auto run_file = runfile::read_run_file(options.run_file, options.set);
  if (!run_file) return fail(run_file.error());
  if (auto join = runtime::check_join(*run_file); !join) {
    return fail(join.error().in(options.run_file));
  }
  if (const auto secret = io::Secret::load_if_any(run_file->secret); !secret) {
    return fail(secret.error());
  }
  const auto device = choose_device(*run_file);
  if (!device) return fail(device.error().in(options.run_file));
  const auto data = look_at_data(*run_file);
  if (!data) return fail(data.error());
  const auto model = runfile::build_model(*run_file, data->format);
  if (!model) {
    return fail(model.error().code, "{}: {}{}", options.run_file, model.error().text,
                data->odd_label);
  }
  if (!run_file->init.empty()) {
    if (const auto start = runtime::start_of(*run_file, *model); !start) return fail(start.error());
  }
  const std::uint64_t batches =
      data::Loader::kPool * run_file->train.batch * std::uint64_t{data->format.batch_bytes()};
  const runtime::Needs least = runtime::estimate(*run_file, model->graph, data->memory + batches);
  const std::uint64_t available = runtime::available_memory().value_or(~std::uint64_t{0});
  base::Result<runtime::Needs> needs = least;
  if (data->missing) complain("check", *data->missing);  // above the facts known without it
  // Do not try what cannot fit.
  if (runtime::check_memory(least, available))
    needs = runtime::measure(*run_file, model->graph, least);
  (options.json ? print_json : print_text)(*run_file, *device, *data, *model,
                                           needs.value_or(least));
  if (!needs) return fail(needs.error().in(options.run_file));
  if (auto fits = runtime::check_memory(*needs, available); !fits) {
    return fail(fits.error().in(options.run_file));
  }
  return data->missing ? base::exit_code(data->missing->code) : 0;
}

}  // namespace

int run_check(const CheckOptions& options) {
  const auto code = check(options);
  if (code) return *code;
  return complain("check", code.error());
}

void print_keys() { fmt::print("{}", runfile::reference()); }

}  // namespace starling::peers
