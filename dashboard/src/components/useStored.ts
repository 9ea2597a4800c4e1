import { useNavigate } from "react-router";

import type { Schemas } from "../api/client";
import { newRequestKey } from "../api/requestKey";
import { useAsked } from "./useAsked";

type Study = Schemas["StudyDocument"];
type Header = { "idempotency-key": string };

/** Stores what a form asks as a study and goes there; `settle` writes the form's address before. */
export function useStored(settle: () => void, submit: (header: Header, signal: AbortSignal) => Promise<Study>) {
  const { ask, isBusy, refusal } = useAsked<Study>();
  const navigate = useNavigate();
  async function store() {
    settle();
    const header = { "idempotency-key": newRequestKey() };
    const study = await ask((signal) => submit(header, signal));
    if (study) void navigate(`/studies/${study.id}`);
  }
  return { store, isBusy, refusal };
}
