// The entry point of every program of integration tests.
#define BOOST_TEST_MODULE starling_integration
#include <boost/test/unit_test.hpp>
