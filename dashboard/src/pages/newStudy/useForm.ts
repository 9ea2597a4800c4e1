import { useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import { useSearchParams } from "react-router";

import { modelsQuery, studyQuery } from "../../api/queries";
import { storedModel, storeModel, type CustomModel } from "../../components/customModel";
import { formOfJob, formOfLabels, formOfParams, paramsOfForm, type Field, type Form } from "./form";

const PAUSE_MS = 250;

/** The form, kept in the address; `?from=<study>` fills it in from that study's job. */
export function useForm() {
  const [params, setParams] = useSearchParams();
  const [form, setForm] = useState<Form>(() => formOfParams(params));
  const [custom, setCustomState] = useState<CustomModel | null>(storedModel);
  const text = params.toString();
  const written = useRef(text);
  const from = params.get("from");
  const { data: models } = useQuery(modelsQuery());
  const { data: study, error: fromError } = useQuery({ ...studyQuery(from ?? ""), enabled: from !== null });

  const setCustom = useCallback((model: CustomModel | null) => {
    setCustomState(model);
    storeModel(model);
  }, []);
  const change = useCallback((changes: Partial<Form>) => setForm((before) => ({ ...before, ...changes })), []);
  const set = useCallback((field: Field, value: string) => change({ [field]: value }), [change]);

  useEffect(() => {
    if (text === written.current) return;
    written.current = text; // a link or the back button
    if (!from) setForm(formOfParams(new URLSearchParams(text)));
  }, [text, from]);

  useEffect(() => {
    if (!study || !models) return;
    const filled = formOfJob(study.job as Record<string, Record<string, unknown>>, models.items.map(({ name }) => name));
    const again = { ...filled.form, ...formOfLabels(study) };
    setForm(again);
    if (again.source === "config") setCustom({ model: filled.model as Record<string, unknown>, num_parameters: null });
    const filledIn = paramsOfForm(again);
    written.current = filledIn.toString(); // what is typed before the address has it stays
    setParams(filledIn, { replace: true });
  }, [study, models, setCustom, setParams]);

  /** Write the address now. Whoever leaves the page does so first: a write that comes later would call the reader back. */
  const settle = useCallback(() => {
    const next = paramsOfForm(form).toString();
    if (next === written.current) return;
    written.current = next;
    setParams(next, { replace: true });
  }, [form, setParams]);

  useEffect(() => {
    if (from) return undefined;
    const next = paramsOfForm(form).toString();
    if (next === written.current) return undefined;
    const timer = setTimeout(settle, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [form, from, settle]);

  return { form, set, settle, change, custom, setCustom, isFilling: from !== null && !study && !fromError, fromError };
}
