/** A job's `model` part as groups of names and values: what the architecture is, block by block. */
export type ModelPart = Readonly<Record<string, unknown>>;

export interface Group {
  key: "model" | "attention" | "mla" | "mlp" | "moe";
  facts: readonly (readonly [string, string | number | boolean | null])[];
}

const MODEL = ["num_layers", "hidden_size", "vocab_size", "tied_embeddings", "mtp_num_layers", "sandwich_norm", "learned_positions"];
const ATTENTION = ["num_attention_heads", "num_query_groups", "kv_channels", "qk_layernorm", "attention_bias"];
const MLP = ["ffn_hidden_size", "gated_linear_unit"];

export function groupsOf(model: ModelPart): Group[] {
  const inner = (name: string) => (model[name] ?? null) as ModelPart | null;
  const mla = inner("mla");
  const moe = inner("moe");
  const groups: Group[] = [
    { key: "model", facts: chosen(model, MODEL) },
    { key: "attention", facts: chosen(model, ATTENTION) },
    ...(mla ? [{ key: "mla", facts: chosen(mla, Object.keys(mla)) } as const] : []),
    { key: "mlp", facts: chosen(model, MLP) },
    ...(moe ? [{ key: "moe", facts: chosen(moe, Object.keys(moe)) } as const] : []),
  ];
  return groups.map(({ key, facts }) => ({ key, facts }));
}

function chosen(part: ModelPart, names: readonly string[]): Group["facts"] {
  return names
    .filter((name) => name in part)
    .map((name) => {
      const value = part[name];
      const isPlain = value === null || ["string", "number", "boolean"].includes(typeof value);
      return [name, isPlain ? (value as string | number | boolean | null) : JSON.stringify(value)] as const;
    });
}

export interface Share {
  key: "layers" | "embedding" | "head" | "mtp";
  parameters: number;
}

/** Where the parameters are. `total` holds embedding and head, and not the prediction layers. */
export function sharesOf({ total, embedding, head, mtp }: { total: number; embedding: number; head: number; mtp: number }): Share[] {
  const shares: Share[] = [
    { key: "layers", parameters: total - embedding - head },
    { key: "embedding", parameters: embedding },
    { key: "head", parameters: head },
    { key: "mtp", parameters: mtp },
  ];
  return shares.filter(({ parameters }) => parameters > 0);
}
