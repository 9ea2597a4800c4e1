import type { Schemas } from "../api/client";

const STORED = "meshplan-custom-model"; // a model is too large for the address; it stays in this tab

/** A model that is not a preset: what /v1/models:import made of a config.json, or another study's. */
export interface CustomModel {
  model: Record<string, unknown>;
  /** Unknown of another study's model. */
  num_parameters: Schemas["Parameters"] | null;
}

/** The model that the form of a new study shows under `?source=config`. */
export function storedModel(): CustomModel | null {
  try {
    return JSON.parse(sessionStorage.getItem(STORED) ?? "null") as CustomModel | null;
  } catch {
    return null;
  }
}

export function storeModel(model: CustomModel | null): void {
  sessionStorage.setItem(STORED, JSON.stringify(model));
}
