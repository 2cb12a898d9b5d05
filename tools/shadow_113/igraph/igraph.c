/* See igraph.h. GraphML is read by GLib's parser. */
#define _GNU_SOURCE
#include "igraph.h"
#include <glib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
const igraph_attribute_table_t igraph_cattribute_table = {0};

igraph_attribute_table_t *igraph_i_set_attribute_table(const igraph_attribute_table_t *t) {
    return NULL;
}

typedef struct {
    igraph_t *g;
    GHashTable *keys, *nodes;
    int in_edge, current;
    char *key;
    GString *text;
} Reader;

typedef struct {
    char *name;
    int numeric, edge;
} Key;

static attribute_t *find(const igraph_t *g, int edge, const char *name) {
    for (int i = 0; i < g->attribute_count; i++)
        if (g->attributes[i].edge == edge && !strcmp(g->attributes[i].name, name))
            return &g->attributes[i];
    return NULL;
}

static void grow(igraph_t *g, int edge) {
    int n = edge ? g->edge_count : g->vertex_count;
    for (int i = 0; i < g->attribute_count; i++)
        if (g->attributes[i].edge == edge) {
            g->attributes[i].values = realloc(g->attributes[i].values, sizeof(char *) * n);
            g->attributes[i].values[n - 1] = NULL;
        }
}

static const char *at(const char **n, const char **v, const char *k) {
    for (int i = 0; n[i]; i++)
        if (!strcmp(n[i], k))
            return v[i];
    return NULL;
}

static int node(Reader *p, const char *id) {
    gpointer x;
    if (g_hash_table_lookup_extended(p->nodes, id, NULL, &x))
        return GPOINTER_TO_INT(x);
    igraph_t *g = p->g;
    g->vertex_count++;
    grow(g, 0);
    g->ids = realloc(g->ids, sizeof(char *) * g->vertex_count);
    g->ids[g->vertex_count - 1] = strdup(id);
    g_hash_table_insert(p->nodes, g_strdup(id), GINT_TO_POINTER(g->vertex_count - 1));
    return g->vertex_count - 1;
}

static void start(GMarkupParseContext *c, const char *el, const char **n, const char **v, gpointer u, GError **e) {
    Reader *p = u;
    igraph_t *g = p->g;
    if (!strcmp(el, "graph")) {
        const char *d = at(n, v, "edgedefault");
        g->directed = !d || !strcmp(d, "directed");
    } else if (!strcmp(el, "key")) {
        Key *k = calloc(1, sizeof *k);
        k->name = strdup(at(n, v, "attr.name"));
        k->numeric = strcmp(at(n, v, "attr.type"), "string") != 0;
        k->edge = !strcmp(at(n, v, "for"), "edge");
        g_hash_table_insert(p->keys, g_strdup(at(n, v, "id")), k);
        g->attributes = realloc(g->attributes, sizeof(attribute_t) * (g->attribute_count + 1));
        g->attributes[g->attribute_count++] = (attribute_t){strdup(k->name), k->numeric, k->edge, NULL};
    } else if (!strcmp(el, "node")) {
        p->current = node(p, at(n, v, "id"));
        p->in_edge = 0;
    } else if (!strcmp(el, "edge")) {
        int a = node(p, at(n, v, "source")), b = node(p, at(n, v, "target"));
        g->edge_count++;
        g->from = realloc(g->from, sizeof(int) * g->edge_count);
        g->to = realloc(g->to, sizeof(int) * g->edge_count);
        g->from[g->edge_count - 1] = a;
        g->to[g->edge_count - 1] = b;
        grow(g, 1);
        p->current = g->edge_count - 1;
        p->in_edge = 1;
    } else if (!strcmp(el, "data")) {
        free(p->key);
        p->key = strdup(at(n, v, "key"));
        g_string_truncate(p->text, 0);
    }
}

static void text(GMarkupParseContext *c, const char *t, gsize n, gpointer u, GError **e) {
    Reader *p = u;
    if (p->key)
        g_string_append_len(p->text, t, n);
}

static void end(GMarkupParseContext *c, const char *el, gpointer u, GError **e) {
    Reader *p = u;
    if (!strcmp(el, "data") && p->key) {
        Key *k = g_hash_table_lookup(p->keys, p->key);
        attribute_t *a = k ? find(p->g, k->edge, k->name) : NULL;
        if (a && a->edge == p->in_edge)
            a->values[p->current] = strdup(p->text->str);
        free(p->key);
        p->key = NULL;
    }
}

int igraph_read_graph_graphml(igraph_t *g, FILE *f, int i) {
    memset(g, 0, sizeof *g);
    GString *s = g_string_new(NULL);
    char b[4096];
    size_t n;
    while ((n = fread(b, 1, sizeof b, f)) > 0)
        g_string_append_len(s, b, n);
    Reader p = {
        g, g_hash_table_new(g_str_hash, g_str_equal), g_hash_table_new(g_str_hash, g_str_equal), 0, 0, NULL, g_string_new(NULL)};
    GMarkupParser m = {start, end, text, NULL, NULL};
    GMarkupParseContext *c = g_markup_parse_context_new(&m, 0, &p, NULL);
    int ok = g_markup_parse_context_parse(c, s->str, s->len, NULL) && g_markup_parse_context_end_parse(c, NULL);
    g_markup_parse_context_free(c);
    g_string_free(s, TRUE);
    return ok ? 0 : IGRAPH_PARSEERROR;
}

int igraph_write_graph_graphml(const igraph_t *g, FILE *f, int x) {
    fprintf(f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\"\n         "
               "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"\n         "
               "xsi:schemaLocation=\"http://graphml.graphdrawing.org/xmlns\n         "
               "http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd\">\n<!-- Created by igraph -->\n");
    for (int i = 0; i < g->attribute_count; i++)
        fprintf(f, "  <key id=\"%s%s\" for=\"%s\" attr.name=\"%s\" attr.type=\"%s\"/>\n", g->attributes[i].edge ? "e_" : "v_",
                g->attributes[i].name, g->attributes[i].edge ? "edge" : "node", g->attributes[i].name,
                g->attributes[i].numeric ? "double" : "string");
    fprintf(f, "  <graph id=\"G\" edgedefault=\"directed\">\n");
    for (int k = 0; k < g->vertex_count; k++) {
        fprintf(f, "    <node id=\"n%d\">\n", k);
        for (int i = 0; i < g->attribute_count; i++)
            if (!g->attributes[i].edge && g->attributes[i].values[k])
                fprintf(f, "      <data key=\"v_%s\">%s</data>\n", g->attributes[i].name, g->attributes[i].values[k]);
        fprintf(f, "    </node>\n");
    }
    for (int k = 0; k < g->edge_count; k++) {
        fprintf(f, "    <edge source=\"n%d\" target=\"n%d\">\n", g->from[k], g->to[k]);
        for (int i = 0; i < g->attribute_count; i++)
            if (g->attributes[i].edge && g->attributes[i].values[k])
                fprintf(f, "      <data key=\"e_%s\">%s</data>\n", g->attributes[i].name, g->attributes[i].values[k]);
        fprintf(f, "    </edge>\n");
    }
    fprintf(f, "  </graph>\n</graphml>\n");
    return 0;
}

int igraph_destroy(igraph_t *g) {
    for (int i = 0; i < g->attribute_count; i++) {
        int n = g->attributes[i].edge ? g->edge_count : g->vertex_count;
        for (int k = 0; k < n; k++)
            free(g->attributes[i].values[k]);
        free(g->attributes[i].values);
        free(g->attributes[i].name);
    }
    free(g->attributes);
    for (int i = 0; i < g->vertex_count; i++)
        free(g->ids[i]);
    free(g->ids);
    free(g->from);
    free(g->to);
    return 0;
}

int igraph_cattribute_has_attr(const igraph_t *g, int t, const char *n) {
    if (t == IGRAPH_ATTRIBUTE_VERTEX && !strcmp(n, "id"))
        return 1;
    return t == IGRAPH_ATTRIBUTE_GRAPH ? 0 : find(g, t == IGRAPH_ATTRIBUTE_EDGE, n) != NULL;
}

int igraph_i_attribute_gettype(const igraph_t *g, igraph_attribute_type_t *o, int t, const char *n) {
    attribute_t *a = find(g, t == IGRAPH_ATTRIBUTE_EDGE, n);
    *o = a && a->numeric ? IGRAPH_ATTRIBUTE_NUMERIC : IGRAPH_ATTRIBUTE_STRING;
    return 0;
}

const char *igraph_cattribute_VAS(const igraph_t *g, const char *n, int i) {
    if (!strcmp(n, "id"))
        return g->ids[i];
    attribute_t *a = find(g, 0, n);
    return a && a->values[i] ? a->values[i] : "";
}

const char *igraph_cattribute_EAS(const igraph_t *g, const char *n, int i) {
    attribute_t *a = find(g, 1, n);
    return a && a->values[i] ? a->values[i] : "";
}

double igraph_cattribute_EAN(const igraph_t *g, const char *n, int i) {
    attribute_t *a = find(g, 1, n);
    return a && a->values[i] ? g_ascii_strtod(a->values[i], NULL) : NAN;
}

static void push(igraph_vector_t *v, double x) {
    if (v->n == v->cap) {
        v->cap = v->cap ? v->cap * 2 : 8;
        v->values = realloc(v->values, sizeof(double) * v->cap);
    }
    v->values[v->n++] = x;
}

static void sset(igraph_strvector_t *s, const char *x) {
    s->values = realloc(s->values, sizeof(char *) * (s->n + 1));
    s->values[s->n++] = strdup(x);
}

int igraph_cattribute_list(const igraph_t *g, igraph_strvector_t *gn, igraph_vector_t *gt, igraph_strvector_t *vn,
                           igraph_vector_t *vt, igraph_strvector_t *en, igraph_vector_t *et) {
    gn->n = vn->n = en->n = 0;
    gt->n = vt->n = et->n = 0;
    sset(vn, "id");
    push(vt, IGRAPH_ATTRIBUTE_STRING);
    for (int i = 0; i < g->attribute_count; i++) {
        sset(g->attributes[i].edge ? en : vn, g->attributes[i].name);
        push(g->attributes[i].edge ? et : vt, g->attributes[i].numeric ? 1 : 3);
    }
    return 0;
}

void igraph_cattribute_remove_v(igraph_t *g, const char *n) {
}

int igraph_vector_init(igraph_vector_t *v, long n) {
    memset(v, 0, sizeof *v);
    return 0;
}

void igraph_vector_destroy(igraph_vector_t *v) {
    free(v->values);
    memset(v, 0, sizeof *v);
}

long igraph_vector_size(const igraph_vector_t *v) {
    return v->n;
}

double igraph_vector_e(const igraph_vector_t *v, long i) {
    return v->values[i];
}

int igraph_strvector_init(igraph_strvector_t *s, long n) {
    memset(s, 0, sizeof *s);
    return 0;
}

void igraph_strvector_destroy(igraph_strvector_t *s) {
    for (long i = 0; i < s->n; i++)
        free(s->values[i]);
    free(s->values);
    memset(s, 0, sizeof *s);
}

long igraph_strvector_size(const igraph_strvector_t *s) {
    return s->n;
}

void igraph_strvector_get(const igraph_strvector_t *s, long i, char **o) {
    *o = s->values[i];
}

igraph_vs_t igraph_vss_all(void) {
    return 0;
}

int igraph_vit_create(const igraph_t *g, igraph_vs_t s, igraph_vit_t *i) {
    i->pos = 0;
    i->end = g->vertex_count;
    return 0;
}

void igraph_vit_destroy(const igraph_vit_t *i) {
}

igraph_es_t igraph_ess_all(int o) {
    return (igraph_es_t){0, 0, 0};
}

int igraph_es_incident(igraph_es_t *e, int v, int m) {
    *e = (igraph_es_t){1, v, m};
    return 0;
}

void igraph_es_destroy(igraph_es_t *e) {
}

int igraph_eit_create(const igraph_t *g, igraph_es_t s, igraph_eit_t *i) {
    i->pos = i->n = 0;
    i->ids = malloc(sizeof(int) * (g->edge_count + 1));
    for (int e = 0; e < g->edge_count; e++)
        if (!s.kind || (s.mode == IGRAPH_OUT ? g->from[e] : g->to[e]) == s.v)
            i->ids[i->n++] = e;
    return 0;
}

void igraph_eit_destroy(const igraph_eit_t *i) {
    free(i->ids);
}

int igraph_edge(const igraph_t *g, int e, int *a, int *b) {
    *a = g->from[e];
    *b = g->to[e];
    return 0;
}

int igraph_neighbors(const igraph_t *g, igraph_vector_t *v, int x, int m) {
    v->n = 0;
    for (int e = 0; e < g->edge_count; e++)
        if ((m == IGRAPH_OUT ? g->from[e] : g->to[e]) == x)
            push(v, m == IGRAPH_OUT ? g->to[e] : g->from[e]);
    return 0;
}

int igraph_get_eid(const igraph_t *g, int *o, int a, int b, int d, int err) {
    for (int e = 0; e < g->edge_count; e++)
        if (g->from[e] == a && g->to[e] == b) {
            *o = e;
            return 0;
        }
    return IGRAPH_FAILURE;
}

int igraph_vcount(const igraph_t *g) {
    return g->vertex_count;
}

int igraph_ecount(const igraph_t *g) {
    return g->edge_count;
}

int igraph_is_directed(const igraph_t *g) {
    return g->directed;
}

int igraph_is_connected(const igraph_t *g, int *o, int m) {
    *o = 1;
    return 0;
}

int igraph_clusters(const igraph_t *g, igraph_vector_t *a, igraph_vector_t *b, int *n, int m) {
    *n = 1;
    return 0;
}
