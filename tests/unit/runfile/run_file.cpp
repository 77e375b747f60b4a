#include "runfile/run_file.hpp"

#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "runfile/build_model.hpp"

using namespace starling;
using namespace starling::runfile;
using base::ErrorCode;

namespace {

const std::string kRunFile = R"([run]
name = "small"
seed = 7
epochs = 2.5

[model]
input = [1, 28, 28]
layers = [
  { type = "conv2d", out = 8, kernel = 3, padding = 1 },
  { type = "relu" },
  { type = "max_pool2d", kernel = 2 },
  { type = "linear", out = 10 },
]

[train]
lr = 0.1
schedule = "cosine"
)";

/// Layers within layers.
const std::string kNested = R"([run]
epochs = 1
[model]
layers = [
  { type = "conv2d", out = 4, kernel = 3, padding = 1, dilation = 1, groups = 1 },
  { type = "residual", name = "sum", layers = [
    { type = "conv2d", name = "conv.one", out = 4, kernel = 3, padding = 1, bias = false },
    { type = "batch_norm", momentum = 0.2 },
  ], shortcut = [{ type = "conv2d", name = "", out = 4, kernel = 1 }] },
  { block = "wide", repeat = 3 },
  { type = "linear", out = 10 },
]
blocks.wide = [
  { type = "gelu" },
  { type = "dropout", rate = 0.5 },
]
label_smoothing = 0.1
)";

/// Without a model.
const std::string kBare = "[run]\nepochs = 1\n";

RunFile parse(const std::vector<std::string>& overrides = {}, const std::string& text = kRunFile) {
  const auto run_file = parse_run_file(text, "run.toml", overrides);
  BOOST_REQUIRE_MESSAGE(run_file.has_value(), (run_file ? "" : run_file.error().text));
  return *run_file;
}

/// The message for kRunFile with text after it or overrides.
std::string error(const std::string& more, const std::vector<std::string>& overrides = {},
                  ErrorCode code = ErrorCode::run_file) {
  const auto run_file = parse_run_file(kRunFile + more, "run.toml", overrides);
  BOOST_REQUIRE(!run_file.has_value());
  BOOST_TEST((run_file.error().code == code));
  return run_file.error().text;
}

std::string error_of_override(const std::string& override) { return error("", {override}); }

}  // namespace

BOOST_AUTO_TEST_SUITE(run_file)

BOOST_AUTO_TEST_CASE(values_are_read_and_the_rest_has_defaults) {
  const RunFile f = parse();
  BOOST_TEST(f.run.name == "small");
  BOOST_TEST(f.run.seed == 7U);
  BOOST_TEST(f.run.epochs == 2.5);
  BOOST_TEST(f.model.input == (std::vector<std::uint32_t>{1, 28, 28}));
  BOOST_REQUIRE(f.model.layers.size() == 4U);
  const model::LayerSpec conv{
      .kind = model::LayerKind::conv2d, .out = 8, .kernel = 3, .padding = 1};
  BOOST_TEST((f.model.layers[0] == conv));
  BOOST_TEST((f.model.layers[1].kind == model::LayerKind::relu));
  BOOST_TEST(f.train.lr == 0.1);
  BOOST_TEST((f.train.schedule == train::Schedule::cosine));
  BOOST_TEST((f.exchange == exchange::Config{}));
  BOOST_TEST((f.security == Security::tls));
  BOOST_TEST(target_samples(f, 60000) == 150000U);
}

BOOST_AUTO_TEST_CASE(overrides_replace_values_and_bare_words_are_strings) {
  const RunFile f = parse({"train.lr=0.2", "train.optimizer=adamw", "exchange.every=5",
                           "swarm.join=[\"a:1\", \"b:2\"]", "data.path=/data/my set",
                           "security.mode=\"off\"", "exchange.grace=1.5", "train.lr=3"});
  BOOST_TEST(f.train.lr == 3.0);
  BOOST_TEST((f.train.optimizer == train::Optimizer::adamw));
  BOOST_TEST(f.exchange.every == 5U);
  BOOST_TEST(f.swarm.join == (std::vector<std::string>{"a:1", "b:2"}));
  BOOST_TEST(f.data.path == std::vector<std::string>{"/data/my set"});
  BOOST_TEST((f.security == Security::off));
  BOOST_TEST((f.exchange.grace == std::chrono::milliseconds(1500)));
}

BOOST_AUTO_TEST_CASE(a_secret_needs_encryption) {
  BOOST_TEST(parse({"security.secret=swarm.secret"}).secret == "swarm.secret");
  BOOST_TEST(error("[security]\nmode = \"off\"\nsecret = \"a\"\n").find("security.mode") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(paths_are_one_string_or_a_list) {
  const RunFile f = parse({"data.path=[\"a\", \"b c\"]", "data.test_path=one", "data.flip=true"});
  BOOST_TEST(f.data.path == (std::vector<std::string>{"a", "b c"}));
  BOOST_TEST(f.data.test_path == std::vector<std::string>{"one"});
  BOOST_TEST(f.data.augmentation.flip);
  BOOST_TEST(parse({"data.path=\"\""}).data.path.empty());
  BOOST_TEST(error("[data]\npath = 3\n").find("must be a string or an array of them") !=
             std::string::npos);
  BOOST_TEST(error("[data]\nflip = 1\n").find("must be true or false") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(run_length_given_by_an_override_replaces_the_other_unit) {
  const RunFile f = parse({"run.samples=1234"});
  BOOST_TEST(f.run.epochs == 0.0);
  BOOST_TEST(target_samples(f, 60000) == 1234U);
  BOOST_TEST(target_samples(parse({"run.samples=5", "run.epochs=1"}), 60000) == 60000U);
}

BOOST_AUTO_TEST_CASE(override_cannot_bring_in_a_second_key) {
  const std::string text = error("", {"train.schedule=\"cosine\"\nlr = 7"});
  BOOST_TEST(text.find("is not known") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(unknown_key_gets_line_and_suggestion) {
  BOOST_TEST(error("momentun = 0.5\n") ==
             "run.toml:18: train.momentun: unknown key; did you mean 'momentum'?");
  BOOST_TEST(error("density = 0.5\n") ==
             "run.toml:18: train.density: unknown key; did you mean 'exchange.density'?");
  // Two letters that changed places are one mistake, not two.
  BOOST_TEST(error_of_override("model.widht=3").find("did you mean 'width'?") != std::string::npos);
  BOOST_TEST(error("[exchnge]\nevery = 2\n") ==
             "run.toml:18: [exchnge]: unknown section; did you mean 'exchange'?");
  BOOST_TEST(error_of_override("train.learning_speed=1").find("--set train.learning_speed=1: ") ==
             0U);
  BOOST_TEST(error("[swarm]\nzzzzzzz = 1\n").find("; there are: degree, join") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_is_left_out_depends_on_the_optimizer) {
  const auto lr = [](const std::string& train) {
    const std::string text =
        "[run]\nepochs = 1\n[model]\ninput = [4]\n"
        "layers = [{ type = \"linear\", out = 2 }]\n[train]\n";
    return parse({}, text + train).train.lr;
  };
  BOOST_TEST(lr("") == 0.05);
  BOOST_TEST(lr("optimizer = \"adamw\"\n") == 0.001);
  BOOST_TEST(lr("lr = 0.5\noptimizer = \"adamw\"\n") == 0.5);
}

BOOST_AUTO_TEST_CASE(steps_of_a_learning_rate_are_checked) {
  const auto f = parse({"train.schedule=step", "train.steps=[0.5, 1]", "train.warmup=0.1"});
  BOOST_TEST(f.train.steps == (std::vector<double>{0.5, 1}));
  BOOST_TEST(error_of_override("train.schedule=step") ==
             "run.toml: train.steps: is missing: say after which fractions of the run the "
             "learning rate goes down, like [0.5, 0.75]");
  BOOST_TEST(error_of_override("train.steps=[0.5]") ==
             "--set train.steps=[0.5]: train.steps: is only for train.schedule = \"step\"");
  BOOST_TEST(error_of_override("train.steps=0.5").find("is a number, must be an array") !=
             std::string::npos);
  BOOST_TEST(error_of_override("train.steps=[0.5, \"x\"]").find("is a string, must be a number") !=
             std::string::npos);
  for (const char* steps :
       {"train.steps=[0.5, 0.5]", "train.steps=[0.75, 0.5]", "train.steps=[0.1, 0.5]"}) {
    BOOST_TEST(error("", {"train.schedule=step", "train.warmup=0.1", steps})
                   .find("must ascend, and begin after train.warmup") != std::string::npos);
  }
  BOOST_TEST(error("", {"train.schedule=step", "train.steps=[1.5]"}).find("out of range: 0 to 1") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(discovery_on_the_local_network_is_no_key_but_an_option_of_up) {
  BOOST_TEST(error("[swarm]\nlan = true\n").find("swarm.lan: unknown key") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_key_above_all_sections_is_told_where_it_belongs) {
  const auto read = parse_run_file("epochs = 3\n", "f");
  BOOST_REQUIRE(!read);
  BOOST_TEST(read.error().text == "f:1: epochs: stands in no section; did you mean 'run.epochs'?");
}

BOOST_AUTO_TEST_CASE(a_text_without_quotes_is_told_to_need_them) {
  BOOST_TEST(error("precision = single\n").ends_with("; text needs quotes"));
}

BOOST_AUTO_TEST_CASE(wrong_types_say_what_is_allowed) {
  BOOST_TEST(error_of_override("train.lr=fast") ==
             "--set train.lr=fast: train.lr: is a string, must be a number from 1e-12 to 100");
  BOOST_TEST(error("batch = 2.5\n") ==
             "run.toml:18: train.batch: is a number, must be an integer from 1 to 65536");
  BOOST_TEST(error("optimizer = 3\n").find("is an integer, must be one of: sgd, adamw") !=
             std::string::npos);
  BOOST_TEST(error_of_override("run.name=3").find("must be a string") != std::string::npos);
  BOOST_TEST(error_of_override("model.layers=3").find("must be an array") != std::string::npos);
  BOOST_TEST(error_of_override("exchange.grace=true").find("is a boolean") != std::string::npos);
  BOOST_TEST(error_of_override("train.nesterov=1") ==
             "--set train.nesterov=1: train.nesterov: is an integer, must be true or false");
  BOOST_TEST(error_of_override("swarm.join=[1]").find("must be a string") != std::string::npos);
  BOOST_TEST(parse_run_file("train = 3\n", "f").error().text ==
             "f:1: train: is an integer, must be a section: [train]");
}

BOOST_AUTO_TEST_CASE(values_out_of_range_say_the_range) {
  BOOST_TEST(error_of_override("train.lr=-1") ==
             "--set train.lr=-1: train.lr: -1 is out of range: 1e-12 to 100");
  BOOST_TEST(error("batch = 0\n") == "run.toml:18: train.batch: 0 is out of range: 1 to 65536");
  for (const char* override : {"train.lr=nan", "train.lr=inf", "run.seed=-1", "exchange.density=0",
                               "swarm.degree=33", "run.target_accuracy=1.01", "checkpoint.keep=0",
                               "limits.link_memory=5", "exchange.grace=-1", "data.alpha=0"}) {
    BOOST_TEST_CONTEXT(override) {
      BOOST_TEST(error_of_override(override).find("out of range") != std::string::npos);
    }
  }
}

BOOST_AUTO_TEST_CASE(unknown_words_get_a_suggestion) {
  BOOST_TEST(error_of_override("data.split=irichlet").find("did you mean 'dirichlet'?") !=
             std::string::npos);
  BOOST_TEST(error_of_override("exchange.mode=gossip")
                 .find("there are: tracked, choco, dense, allreduce, local, none") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(dense_averaging_sends_all_whatever_the_file_says) {
  const RunFile f = parse({"exchange.mode=dense", "exchange.density=0.01", "exchange.bits=2"});
  BOOST_TEST(f.exchange.density == 1.0);
  BOOST_TEST(f.exchange.bits == 8);
  BOOST_TEST(f.exchange.lambda == 0.0);
}

BOOST_AUTO_TEST_CASE(names_cannot_leave_their_folder) {
  for (const char* name : {"run.name=../x", "run.name=a/b", "run.name=..", "run.name="}) {
    BOOST_TEST(error_of_override(name).find("must consist of letters") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(layers_are_checked_key_by_key) {
  const auto layers = [](const std::string& layer) {
    return error_of_override("model.layers=[{ type = \"relu\" }, " + layer + "]");
  };
  BOOST_TEST(
      layers("{ type = \"conv2d\", out = 3, kernal = 3 }")
          .find(": model.layers[1].kernal: conv2d has no such key; did you mean 'kernel'?") !=
      std::string::npos);
  BOOST_TEST(layers("7").find("--set model.layers=[") == 0U);
  BOOST_TEST(layers("{ type = \"relu\", out = 3 }").find("relu has no such key") !=
             std::string::npos);
  BOOST_TEST(layers("{ type = \"linear\" }").find("model.layers[1]: 'out' is missing") !=
             std::string::npos);
  BOOST_TEST(layers("{ type = \"max_pool2d\" }").find("'kernel' is missing") != std::string::npos);
  BOOST_TEST(layers("{ type = \"conv2\", out = 1 }").find("did you mean 'conv2d'?") !=
             std::string::npos);
  BOOST_TEST(layers("{ out = 1 }").find("must be a table like") != std::string::npos);
  BOOST_TEST(layers("7").find("must be a table like") != std::string::npos);
  BOOST_TEST(layers("{ type = \"linear\", out = 0 }").find("0 is out of range") !=
             std::string::npos);
  BOOST_TEST(layers("{ type = \"linear\", out = \"ten\" }").find("must be an integer") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(error_in_a_layer_names_its_line) {
  std::string text = kRunFile;
  text.replace(text.find("kernel = 2"), 10, "kernel = 0");
  const auto run_file = parse_run_file(text, "run.toml");
  BOOST_REQUIRE(!run_file.has_value());
  BOOST_TEST(run_file.error().text ==
             "run.toml:11: model.layers[2].kernel: 0 is out of range: 1 to 16777216");
}

BOOST_AUTO_TEST_CASE(layers_stand_within_layers_and_blocks) {
  const RunFile f = parse({}, kNested);
  BOOST_REQUIRE(f.model.layers.size() == 4U);
  const model::LayerSpec& sum = f.model.layers[1];
  BOOST_TEST((sum.kind == model::LayerKind::residual));
  BOOST_REQUIRE(sum.layers.size() == 2U);
  BOOST_TEST(sum.layers[0].name.value() == "conv.one");
  BOOST_TEST(!sum.layers[0].bias);
  BOOST_TEST(!sum.layers[1].name.has_value());
  BOOST_TEST(sum.shortcut.size() == 1U);
  BOOST_TEST(sum.shortcut[0].name.value() == "");
  BOOST_TEST((f.model.layers[2].kind == model::LayerKind::block));
  BOOST_TEST(f.model.layers[2].repeat == 3U);
  BOOST_REQUIRE(f.model.blocks.contains("wide"));
  BOOST_TEST(f.model.blocks.at("wide").size() == 2U);
  BOOST_TEST(f.model.label_smoothing == 0.1);
}

BOOST_AUTO_TEST_CASE(errors_deep_in_layers_name_the_path) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = kNested;
    text.replace(text.find(from), from.size(), to);
    const auto run_file = parse_run_file(text, "f");
    BOOST_REQUIRE(!run_file.has_value());
    return run_file.error().text;
  };
  BOOST_TEST(with("bias = false", "bias = 0") ==
             "f:7: model.layers[1].layers[0].bias: is an integer, must be true or false");
  BOOST_TEST(with("out = 4, kernel = 1", "out = 4, kernels = 1") ==
             "f:9: model.layers[1].shortcut[0].kernels: conv2d has no such key; did you mean "
             "'kernel'?");
  BOOST_TEST(with("rate = 0.5", "rat = 0.5") ==
             "f:15: model.blocks.wide[1].rat: dropout has no such key; did you mean 'rate'?");
  BOOST_TEST(with("repeat = 3", "repeat = 4097").find("4097 is out of range: 1 to 4096") !=
             std::string::npos);
  BOOST_TEST(with("wide = ", "\"wi de\" = ").find("a block's name must consist of") !=
             std::string::npos);
  for (const char* name : {"\".conv\"", "\"conv.\"", "\"a..b\"", "\"a b\"", "\"é\""}) {
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(with("\"conv.one\"", name).find("with single dots between them") !=
                 std::string::npos);
    }
  }
  BOOST_TEST(with("\"conv.one\"", '"' + std::string(65, 'x') + '"').find("at most 64") !=
             std::string::npos);
  std::string deep = "{ type = \"relu\" }";
  for (std::size_t i = 0; i < model::kDepthMax; ++i) {
    deep = "{ type = \"residual\", layers = [" + deep + "] }";
  }
  BOOST_TEST(error_of_override("model.layers=[" + deep + "]").find("more than 16 other lists") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(preset_stands_in_place_of_layers) {
  const RunFile f = parse({"model.preset=resnet20", "model.width=8"});
  BOOST_TEST((f.model.preset == model::Preset::resnet20));
  BOOST_TEST(f.model.sizes.width == 8U);
  BOOST_TEST(f.model.layers.empty());
  BOOST_TEST(error_of_override("model.preset=resnet19").find("did you mean 'resnet1") !=
             std::string::npos);
  BOOST_TEST(error_of_override("model.depth=3") ==
             "--set model.depth=3: model.depth: is only for preset gpt");
  BOOST_TEST(error("[swarm]\n", {"model.preset=mlp", "model.width=3"})
                 .find("is only for presets other than mlp") != std::string::npos);
  BOOST_TEST(error("", {"model.preset=mlp", "model.layers=[]"})
                 .find("is only for a model without preset") != std::string::npos);
  BOOST_TEST(error("", {"model.loss=mean_squared", "model.label_smoothing=0.1"})
                 .find("is only for loss cross_entropy") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_together_is_refused) {
  BOOST_TEST(error_of_override("run.epochs=0").find("run.epochs: is missing") != std::string::npos);
  BOOST_TEST(error_of_override("data.split=private").find("give run.samples") != std::string::npos);
  BOOST_TEST((parse({"data.split=private", "run.samples=100"}).data.split ==
              starling::data::Split::private_data));
  BOOST_TEST(error("[exchange]\nmode = \"allreduce\"\n").find("swarm.peers: must be at least 2") !=
             std::string::npos);
  BOOST_TEST(parse({"exchange.mode=allreduce", "swarm.peers=33"}).peers == 33U);
  BOOST_TEST(parse({"swarm.peers=34"}).peers == 34U);  // which only a ring looks at
  BOOST_TEST(error("[exchange]\nmode = \"local\"\n", {"swarm.peers=34"}) ==
             "--set swarm.peers=34: swarm.peers: 34 is too many for exchange.mode = \"local\", "
             "which takes 33 at most: each peer is linked with all others");
  BOOST_TEST(error("[exchange]\nmode = \"allreduce\"\n", {"swarm.peers=4", "swarm.hub=peer-1"}) ==
             "--set swarm.hub=peer-1: swarm.hub: is not for exchange.mode = \"allreduce\": each "
             "peer is linked with all others, not with one");
  BOOST_TEST(parse({"train.accumulate=4"}).train.accumulate == 4U);
  BOOST_TEST(error_of_override("train.accumulate=5") ==
             "--set train.accumulate=5: train.accumulate: must divide train.batch, which is 64");
  BOOST_TEST(error_of_override("train.batch_min=65") ==
             "--set train.batch_min=65: train.batch_min: is more than train.batch, which is 64");
  BOOST_TEST(error_of_override("exchange.bits=5").find("exchange.bits: 5 is not 1, 2, 3, 4 or 8") !=
             std::string::npos);
  BOOST_TEST(error("", {"exchange.momentum_gain=2", "exchange.momentum=0.3"})
                 .find("momentum_gain: 2 with a momentum of 0.3 lets links swing ever further: "
                       "below 1.85") != std::string::npos);
  for (const char* fine : {"exchange.momentum=0", "exchange.momentum=0.4", "exchange.mode=choco",
                           "exchange.momentum_gain=1.8"}) {
    parse({"exchange.momentum=0.3", "exchange.momentum_gain=2", fine});
  }
  BOOST_TEST(error_of_override("model.layers=[]").find("missing or empty") != std::string::npos);
  std::string both = kRunFile;
  both.insert(both.find("epochs"), "samples = 3\n");
  BOOST_TEST(parse_run_file(both, "f").error().text.find("f:4: run.samples: is given beside") ==
             0U);
}

BOOST_AUTO_TEST_CASE(broken_toml_says_where) {
  BOOST_TEST(error("lr 3\n").find("run.toml:18:") == 0U);
  BOOST_TEST(error("lr = 3\n").find("is not valid TOML") != std::string::npos);  // given twice
}

BOOST_AUTO_TEST_CASE(malformed_overrides_are_usage_errors) {
  for (const char* override : {"train.lr", "lr=3", ".lr=3", "train.=3", "=3", ""}) {
    BOOST_TEST_CONTEXT(override) {
      BOOST_TEST(error("", {override}, ErrorCode::usage).find("section.key=value") !=
                 std::string::npos);
    }
  }
}

BOOST_AUTO_TEST_CASE(missing_file_is_named) {
  const auto run_file = read_run_file("no-such-folder/run.toml");
  BOOST_REQUIRE(!run_file.has_value());
  BOOST_TEST((run_file.error().code == ErrorCode::run_file));
  BOOST_TEST(run_file.error().text.find("no-such-folder/run.toml: cannot be opened") == 0U);
}

BOOST_AUTO_TEST_CASE(enormous_file_is_refused) {
  BOOST_TEST(error(std::string(kRunFileBytesMax, '\n')).find("are accepted") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(model_must_fit_the_samples) {
  const data::SampleFormat format{.shape = {1, 4, 5}, .classes = 10};
  const char* kLinear = "model.layers=[{ type = 'linear', out = 10 }]";
  const auto input_of = [&](const char* input) {
    const auto model = build_model(parse({input, kLinear}), format);
    BOOST_REQUIRE_MESSAGE(model.has_value(), (model ? "" : model.error().text));
    return compute::to_string(model->graph.input);
  };
  BOOST_TEST(input_of("model.input=[1, 4, 5]") == "1x4x5");
  BOOST_TEST(input_of("model.input=[20]") == "20");
  BOOST_TEST(input_of("model.input=[]") == "1x4x5");
  const auto error_of_model = [&](const std::vector<std::string>& set,
                                  const data::SampleFormat& samples) {
    const auto model = build_model(parse(set), samples);
    BOOST_REQUIRE(!model.has_value());
    return model.error().text;
  };
  for (const char* override : {"model.input=[1, 5, 4]", "model.input=[21]"}) {
    BOOST_TEST(error_of_model({override, kLinear}, format)
                   .find("samples of fashion-mnist have the shape [1, 4, 5]") != std::string::npos);
  }
  BOOST_TEST(error_of_model({kLinear, "model.loss=mean_squared", "model.input=[]"}, format)
                 .find("have labels: use model.loss = \"cross_entropy\"") != std::string::npos);
  const data::SampleFormat regression{.shape = {3}, .target_shape = {2}};
  BOOST_TEST(error_of_model({kLinear, "model.input=[]"}, regression)
                 .find("have targets: use model.loss = \"mean_squared\"") != std::string::npos);
  BOOST_TEST(error_of_model({kLinear, "model.input=[]", "model.loss=mean_squared"}, regression)
                 .find("gives 10 outputs, but a target has 2 values") != std::string::npos);
  const data::SampleFormat text{.shape = {16}, .vocabulary = 256, .classes = 256};
  const auto gpt = build_model(parse({"model.preset=gpt", "model.context=16"}, kBare), text);
  BOOST_REQUIRE_MESSAGE(gpt.has_value(), (gpt ? "" : gpt.error().text));
  BOOST_TEST(gpt->graph.positions == 16U);
}

BOOST_AUTO_TEST_CASE(resolved_run_file_reads_back_equal) {
  const RunFile f =
      parse({"swarm.join=['a:1', 'q\"uo\\te:2']", "train.lr=0.012345678901234567",
             "exchange.mode=allreduce", "swarm.peers=3", "data.split=dirichlet", "data.alpha=0.3",
             "data.path='C:\\odd \"path\" é'", "exchange.grace=0.123456789", "security.mode=off",
             "train.optimizer=adamw", "train.epsilon=1e-9", "run.seed=9223372036854775807",
             "train.schedule=step", "train.steps=[0.1, 0.7]"});
  const std::string text = to_toml(f);
  const auto again = parse_run_file(text, "resolved");
  BOOST_REQUIRE_MESSAGE(again.has_value(), (again ? "" : again.error().text));
  BOOST_TEST((*again == f));
  BOOST_TEST(to_toml(*again) == text);
  BOOST_TEST((parse({}, to_toml(parse())) == parse()));
}

BOOST_AUTO_TEST_CASE(resolved_models_read_back_equal) {
  const auto reads_back = [](const RunFile& f) {
    const RunFile again = parse({}, to_toml(f));
    BOOST_TEST((again == f));
    BOOST_TEST(to_toml(again) == to_toml(f));
  };
  const RunFile nested = parse({}, kNested);
  reads_back(nested);
  BOOST_TEST(!nested.model.blocks.empty());
  for (const char* preset : {"mlp", "cnn", "resnet20", "resnet18", "resnet50", "gpt"}) {
    BOOST_TEST_CONTEXT(preset) {
      reads_back(parse({std::string("model.preset=") + preset}, kBare));
    }
  }
  reads_back(parse({"model.preset=mlp", "model.widths=[]", "model.loss=mean_squared"}, kBare));
  reads_back(parse({"model.preset=gpt", "model.style=llama", "model.depth=3", "model.width=12",
                    "model.heads=6", "model.kv_heads=2", "model.mlp_width=9", "model.context=7",
                    "model.vocabulary=300", "model.dropout=0.1", "model.tied=false"},
                   kBare));
  reads_back(parse(
      {"model.layers=[{ type = 'conv2d', out = 1, kernel = 2, stride = 3, padding = 4, dilation = "
       "5,"
       " groups = 6, bias = false, initial_std = 0.3 }, { type = 'linear', out = 2, bias = false },"
       "{ type = 'batch_norm', epsilon = 0.1, momentum = 0 }, { type = 'layer_norm', bias = false,"
       "epsilon = 1e-6 }, { type = 'rms_norm', epsilon = 1e-7 }, { type = 'embedding', out = 3 },"
       "{ type = 'positions', initial_std = 0.01 }, { type = 'attention', heads = 4, kv_heads = 2,"
       "rotary = 10000 }, { type = 'gelu' }, { type = 'gelu_tanh' }, { type = 'silu' },"
       "{ type = 'swiglu' }, { type = 'dropout', rate = 0 }, { type = 'max_pool2d', kernel = 3,"
       "stride = 2, padding = 1 }, { type = 'avg_pool2d', kernel = 2 }, { type = 'flatten' },"
       "{ type = 'global_avg_pool' }, { type = 'tied_linear' }]"},
      kBare));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(canonical_form)

BOOST_AUTO_TEST_CASE(what_may_differ_between_peers_is_not_in_it) {
  const Identity identity{.dataset = base::xxh3_128("data"), .parameters = 5};
  const std::string text = canonical(parse(), identity);
  for (const char* override :
       {"train.device=cuda:1", "train.threads=4", "train.precision=bf16", "swarm.join=[\"a:1\"]",
        "limits.link_memory=2000000", "data.path=/elsewhere", "exchange.every=7",
        "exchange.density=0.1", "checkpoint.every=5", "report.every=3", "run.name=other",
        "security.mode=off", "swarm.degree=8", "train.lr=0.3", "train.batch=16",
        "exchange.momentum=0", "exchange.momentum_gain=2", "links.fabric=none",
        "links.fabric_ports=47000-47015"}) {
    BOOST_TEST_CONTEXT(override) { BOOST_TEST(canonical(parse({override}), identity) == text); }
  }
  for (const char* override :
       {"train.optimizer=adamw", "run.seed=8", "run.epochs=3", "run.samples=100", "data.shards=5",
        "data.split=dirichlet", "data.source=mnist", "exchange.mode=none", "model.input=[3, 2, 2]",
        "model.layers=[{ type = \"linear\", out = 10 }]", "model.loss=mean_squared",
        "model.label_smoothing=0.1", "model.preset=mlp"}) {
    BOOST_TEST_CONTEXT(override) {
      const std::string other = canonical(parse({override}), identity);
      BOOST_TEST(other != text);
      BOOST_TEST((run_id(other) != run_id(text)));
    }
  }
  BOOST_TEST(canonical(parse(), {.dataset = base::xxh3_128("other"), .parameters = 5}) != text);
  BOOST_TEST(canonical(parse(), {.dataset = identity.dataset, .parameters = 6}) != text);
  // The file that a run starts from, not where it lies.
  const Identity started{identity.dataset, identity.parameters, base::xxh3_128("file")};
  BOOST_TEST(canonical(parse(), started) != text);
  BOOST_TEST(canonical(parse({"model.init=a.safetensors"}), started) ==
             canonical(parse({"model.init=b.safetensors"}), started));
}

BOOST_AUTO_TEST_CASE(every_part_of_a_model_is_in_it) {
  const std::string text = canonical(parse({}, kNested), {});
  const std::pair<const char*, const char*> changes[] = {{"padding = 1, bias", "padding = 2, bias"},
                                                         {"kernel = 1", "kernel = 2"},
                                                         {"bias = false", "bias = true"},
                                                         {"momentum = 0.2", "momentum = 0.3"},
                                                         {"repeat = 3", "repeat = 2"},
                                                         {"rate = 0.5", "rate = 0.4"},
                                                         {"\"gelu\"", "\"silu\""}};
  for (const auto& [from, to] : changes) {
    std::string changed = kNested;
    changed.replace(changed.find(from), std::string(from).size(), to);
    BOOST_TEST_CONTEXT(to) { BOOST_TEST(canonical(parse({}, changed), {}) != text); }
  }
  const std::string gpt = canonical(parse({"model.preset=gpt"}, kBare), {});
  for (const char* override :
       {"model.style=llama", "model.depth=5", "model.width=128", "model.heads=8",
        "model.kv_heads=2", "model.mlp_width=100", "model.context=64", "model.vocabulary=300",
        "model.dropout=0.1", "model.tied=false"}) {
    BOOST_TEST_CONTEXT(override) {
      BOOST_TEST(canonical(parse({"model.preset=gpt", override}, kBare), {}) != gpt);
    }
  }
  // The values that a preset fills in, written out.
  BOOST_TEST(canonical(parse({"model.preset=gpt", "model.width=256", "model.kv_heads=4",
                              "model.mlp_width=1024"},
                             kBare),
                       {}) == gpt);
}

BOOST_AUTO_TEST_CASE(written_out_defaults_are_the_same_run) {
  std::string text = kRunFile;
  text.replace(text.find("kernel = 2"), 10, "kernel = 2, stride = 2");
  text.replace(text.find("padding = 1"), 11, "padding = 1, stride = 1, name = \"first\"");
  BOOST_TEST(canonical(parse({}, text), {}) == canonical(parse(), {}));
}

BOOST_AUTO_TEST_CASE(diff_names_each_line_that_differs) {
  const Identity identity;
  const std::string here = canonical(parse(), identity);
  BOOST_TEST(diff(here, here) == "");
  BOOST_TEST(diff(here, canonical(parse({"train.optimizer=adamw", "run.seed=8"}), identity)) ==
             "run.seed: 7 here, 8 there\ntrain.optimizer: sgd here, adamw there\n");
  BOOST_TEST(diff(here, canonical(parse({"exchange.mode=local", "swarm.peers=4"}), identity)) ==
             "exchange.every: nothing here, 2 there\nexchange.mode: tracked here, local there\n"
             "exchange.outer_lr: nothing here, 0.7 there\n"
             "exchange.outer_momentum: nothing here, 0.9 there\n"
             "exchange.ring_version: nothing here, 2 there\n"
             "swarm.peers: nothing here, 4 there\ntrain.batch: nothing here, 64 there\n");
  BOOST_TEST(diff(here, canonical(parse({"exchange.mirror=bf16"}), identity)) ==
             "exchange.mirror: nothing here, bf16 there\n");
  BOOST_TEST(diff(here, canonical(parse({"exchange.momentum=0.5"}), identity)) ==
             "exchange.momentum: nothing here, 0.5 there\n"
             "exchange.momentum_gain: nothing here, 1 there\n");
}

BOOST_AUTO_TEST_SUITE_END()
