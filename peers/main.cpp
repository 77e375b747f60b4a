// The program `starling`, whose peers are honest.
#include "commands.hpp"

int main(int argc, char** argv) { return starling::peers::run_program(argc, argv); }
