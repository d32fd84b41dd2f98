/* The parts of the options of a build, and questions about several of them. */
#include "passes/build_parts.h"

/* Defines the accessor of a part. */
#define PART(Type, accessor, part)                \
    const Type *accessor(const BuildOptions *opt) \
    {                                             \
        static const Type none;                   \
                                                  \
        return opt->part ? opt->part : &none;     \
    }

PART(BatchOptions, batch_options, batch)
PART(InputOptions, input_options, inputs)
PART(TypeOptions, type_options, types)
PART(RecipeOptions, recipe_options, recipes)
PART(TargetOptions, target_options, target)
PART(UpdateOptions, update_options, update)
PART(ParameterOptions, parameter_options, parameters)
PART(ReplicaOptions, replica_options, replicas)
PART(OutputOptions, output_options, outputs)
PART(CollectiveOptions, collective_options, collectives)
PART(BatchNormOptions, batch_norm_options, batch_norm)
PART(BackendOptions, backend_options, backend)
PART(MemoryOptions, memory_options, memory)
PART(StepOptions, step_options, step)
PART(TokenOptions, token_options, tokens)

const BuildOptions *build_parts(BuildParts *p)
{
    p->build = (BuildOptions){
        .mode = p->build.mode,
        .batch = &p->batch,
        .inputs = &p->inputs,
        .types = &p->types,
        .recipes = &p->recipes,
        .target = &p->target,
        .update = &p->update,
        .parameters = &p->parameters,
        .replicas = &p->replicas,
        .outputs = &p->outputs,
        .collectives = &p->collectives,
        .batch_norm = &p->batch_norm,
        .backend = &p->backend,
        .memory = &p->memory,
        .step = &p->step,
        .tokens = &p->tokens,
    };
    return &p->build;
}

void build_parts_copy(BuildParts *to, const BuildOptions *from)
{
    *to = (BuildParts){
        .batch = *batch_options(from),
        .inputs = *input_options(from),
        .types = *type_options(from),
        .recipes = *recipe_options(from),
        .target = *target_options(from),
        .update = *update_options(from),
        .parameters = *parameter_options(from),
        .replicas = *replica_options(from),
        .outputs = *output_options(from),
        .collectives = *collective_options(from),
        .batch_norm = *batch_norm_options(from),
        .backend = *backend_options(from),
        .memory = *memory_options(from),
        .step = *step_options(from),
        .tokens = *token_options(from),
    };
    to->build.mode = from->mode;
    build_parts(to);
}

BuildMode build_mode(const BuildOptions *opt) { return opt->mode; }

bool mode_in(const BuildOptions *opt, unsigned modes) { return modes >> opt->mode & 1; }

int replica_count(const BuildOptions *opt)
{
    const ReplicaOptions *r = replica_options(opt);

    return r->replicas > 0 ? r->replicas : r->world ? r->world : device_count(opt);
}

int device_count(const BuildOptions *opt)
{
    const int n = replica_options(opt)->devices;

    return n > 1 ? n : 1;
}

bool follows_file(const BuildOptions *opt)
{
    const OptimizerDef *optimizer = recipe_options(opt)->optimizer;

    return optimizer && optimizer->of_file;
}

bool optimizer_averages(const BuildOptions *opt)
{
    const OptimizerDef *optimizer = recipe_options(opt)->optimizer;

    return optimizer && optimizer->averages;
}

bool keeps_means(const BuildOptions *opt) { return update_options(opt)->ema > 0 || optimizer_averages(opt); }

const char *target_name(const BuildOptions *opt)
{
    const char *name = target_options(opt)->target;

    return name ? name : "target";
}

bool has_loss(const BuildOptions *opt) { return recipe_options(opt)->loss != NULL; }

bool loss_has_classes(const BuildOptions *opt)
{
    return has_loss(opt) && recipe_options(opt)->loss->target == TARGET_CLASSES;
}

bool loss_is_output(const BuildOptions *opt) { return has_loss(opt) && !loss_has_target(opt); }

const Target *build_target(const BuildOptions *opt) { return &backend_options(opt)->backend; }

bool loss_has_target(const BuildOptions *opt)
{
    const LossDef *loss = recipe_options(opt)->loss;

    return loss && loss->target != TARGET_NONE;
}

void pass_draft(Draft *d, Graph *g, const PassCtx *ctx)
{
    draft_open(d, g, build_target(ctx->opt), device_count(ctx->opt), ctx->scratch);
}
