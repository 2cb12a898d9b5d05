/* What tgen uses of igraph, for a tgen in Shadow 1.13: igraph of Debian 11 brings libraries (C++, LAPACK, ICU) that do not start
 * in Shadow's namespaces. A graph is lists of edges and of attributes, all values as text; whatever is not asked for by tgen's
 * own graphs is left out. */
#pragma once
#include <stdio.h>
typedef int igraph_integer_t;
typedef int igraph_bool_t;
typedef double igraph_real_t;

typedef struct {
    char *name;
    int numeric;
    int edge;
    char **values;
} attribute_t;

typedef struct {
    int vertex_count, edge_count, attribute_count, directed;
    int *from, *to;
    char **ids;
    attribute_t *attributes;
} igraph_t;

typedef struct {
    int x;
} igraph_attribute_table_t;

typedef enum { IGRAPH_ATTRIBUTE_DEFAULT = 0, IGRAPH_ATTRIBUTE_NUMERIC = 1, IGRAPH_ATTRIBUTE_STRING = 3 } igraph_attribute_type_t;

typedef enum { IGRAPH_ATTRIBUTE_GRAPH = 0, IGRAPH_ATTRIBUTE_VERTEX, IGRAPH_ATTRIBUTE_EDGE } igraph_attribute_elemtype_t;

typedef struct {
    long n, cap;
    double *values;
} igraph_vector_t;

typedef struct {
    long n;
    char **values;
} igraph_strvector_t;

typedef struct {
    int pos, end;
} igraph_vit_t;

typedef int igraph_vs_t;

typedef struct {
    int pos, n;
    int *ids;
} igraph_eit_t;

typedef struct {
    int kind, v, mode;
} igraph_es_t;

enum { IGRAPH_SUCCESS = 0, IGRAPH_FAILURE = 1, IGRAPH_PARSEERROR = 2, IGRAPH_UNIMPLEMENTED = 12 };

enum { IGRAPH_OUT = 1, IGRAPH_IN = 2, IGRAPH_WEAK = 1, IGRAPH_STRONG = 2, IGRAPH_DIRECTED = 1, IGRAPH_EDGEORDER_ID = 0 };

typedef int igraph_error_t;
extern const igraph_attribute_table_t igraph_cattribute_table;
igraph_attribute_table_t *igraph_i_set_attribute_table(const igraph_attribute_table_t *);
int igraph_read_graph_graphml(igraph_t *, FILE *, int);
int igraph_write_graph_graphml(const igraph_t *, FILE *, int);
int igraph_destroy(igraph_t *);
int igraph_cattribute_has_attr(const igraph_t *, int, const char *);
int igraph_i_attribute_gettype(const igraph_t *, igraph_attribute_type_t *, int, const char *);
const char *igraph_cattribute_VAS(const igraph_t *, const char *, int);
const char *igraph_cattribute_EAS(const igraph_t *, const char *, int);
double igraph_cattribute_EAN(const igraph_t *, const char *, int);
#define VAS igraph_cattribute_VAS
#define EAS igraph_cattribute_EAS
#define EAN igraph_cattribute_EAN
int igraph_cattribute_list(const igraph_t *, igraph_strvector_t *, igraph_vector_t *, igraph_strvector_t *, igraph_vector_t *,
                           igraph_strvector_t *, igraph_vector_t *);
void igraph_cattribute_remove_v(igraph_t *, const char *);
int igraph_vector_init(igraph_vector_t *, long);
void igraph_vector_destroy(igraph_vector_t *);
long igraph_vector_size(const igraph_vector_t *);
double igraph_vector_e(const igraph_vector_t *, long);
int igraph_strvector_init(igraph_strvector_t *, long);
void igraph_strvector_destroy(igraph_strvector_t *);
long igraph_strvector_size(const igraph_strvector_t *);
void igraph_strvector_get(const igraph_strvector_t *, long, char **);
igraph_vs_t igraph_vss_all(void);
int igraph_vit_create(const igraph_t *, igraph_vs_t, igraph_vit_t *);
void igraph_vit_destroy(const igraph_vit_t *);
#define IGRAPH_VIT_END(i) ((i).pos >= (i).end)
#define IGRAPH_VIT_GET(i) ((i).pos)
#define IGRAPH_VIT_NEXT(i) (++(i).pos)
igraph_es_t igraph_ess_all(int);
int igraph_es_incident(igraph_es_t *, int, int);
void igraph_es_destroy(igraph_es_t *);
int igraph_eit_create(const igraph_t *, igraph_es_t, igraph_eit_t *);
void igraph_eit_destroy(const igraph_eit_t *);
#define IGRAPH_EIT_END(i) ((i).pos >= (i).n)
#define IGRAPH_EIT_GET(i) ((i).ids[(i).pos])
#define IGRAPH_EIT_NEXT(i) (++(i).pos)
#define IGRAPH_EIT_RESET(i) ((i).pos = 0)
int igraph_edge(const igraph_t *, int, int *, int *);
int igraph_neighbors(const igraph_t *, igraph_vector_t *, int, int);
int igraph_get_eid(const igraph_t *, int *, int, int, int, int);
int igraph_vcount(const igraph_t *);
int igraph_ecount(const igraph_t *);
int igraph_is_directed(const igraph_t *);
int igraph_is_connected(const igraph_t *, int *, int);
int igraph_clusters(const igraph_t *, igraph_vector_t *, igraph_vector_t *, int *, int);
