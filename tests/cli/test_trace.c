/*
 * test_trace.c - which texts are a trace by the rules of W3C, and what becomes of them in metadata.
 */
#include "support/check.h"
#include "json/trace.h"

#define PARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static void a_parent_is_valid_only_by_the_rules_of_its_version(void **state)
{
    static const char *const valid[] = {
        PARENT, "00-00000000000000000000000000000001-0000000000000001-00",
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes-later"};
    static const char *const invalid[] = {
        "",
        "00",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-a\nb",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"};

    (void)state;
    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++) {
        must_hold(trace_parent_is_valid(text_of(valid[i])));
    }
    for (size_t i = 0; i < sizeof invalid / sizeof invalid[0]; i++) {
        must_hold(!trace_parent_is_valid(text_of(invalid[i])));
    }
}

static void a_state_is_a_list_of_keys_and_values(void **state)
{
    (void)state;
    must_hold(trace_state_is_valid(text_of("rojo=00f067aa0ba902b7")));
    must_hold(trace_state_is_valid(text_of("a=1, b@c/d_-*=x y ,,")));
    must_hold(!trace_state_is_valid(text_of("")));
    must_hold(!trace_state_is_valid(text_of("a")));
    must_hold(!trace_state_is_valid(text_of("A=1")));
    must_hold(!trace_state_is_valid(text_of("a=")));
    must_hold(!trace_state_is_valid(text_of("a=1=2")));
    must_hold(!trace_state_is_valid(text_of("a=\x7f")));
    must_hold(!trace_state_is_valid(text_of(
        "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=1,k=1,l=1,m=1,n=1,o=1,p=1,q=1,r=1,s=1,t=1,u=1,v=1,"
        "w=1,x=1,y=1,z=1,aa=1,ab=1,ac=1,ad=1,ae=1,af=1,ag=1")));
}

/* The metadata after a request with this trace. */
static void must_become(const char *wanted, const char *metadata, const char *parent,
                        const char *trace_state)
{
    hf_new_event event = HF_NEW_EVENT_INIT;
    struct arena arena;

    arena_init(&arena, 100000);
    event.metadata = metadata;
    must_answer(HF_OK, trace_take(parent, trace_state, &arena, &event));
    must_read(wanted, event.metadata);
    arena_release(&arena);
}

static void a_trace_goes_into_the_metadata_that_have_none(void **state)
{
    (void)state;
    must_become("{\"traceparent\":\"" PARENT "\"}", NULL, PARENT, NULL);
    must_become("{\"traceparent\":\"" PARENT "\",\"tracestate\":\"a=1\"}", "{}", PARENT, "a=1");
    must_become("{\"n\": 1.10,\"traceparent\":\"" PARENT "\"}", "{\"n\": 1.10} \n", PARENT, "A=1");
    must_become("{\"traceparent\":\"mine\"}", "{\"traceparent\":\"mine\"}", PARENT, "a=1");
    must_become("{\"n\":1}", "{\"n\":1}", "00-nonsense", "a=1");
    must_become("{\"n\":1}", "{\"n\":1}", NULL, "a=1");
    must_become(NULL, NULL, NULL, NULL);
    must_become("[1]", "[1]", PARENT, NULL); /* the bus refuses it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parent_is_valid_only_by_the_rules_of_its_version),
        cmocka_unit_test(a_state_is_a_list_of_keys_and_values),
        cmocka_unit_test(a_trace_goes_into_the_metadata_that_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
