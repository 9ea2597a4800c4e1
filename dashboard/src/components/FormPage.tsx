import { Card, Stack } from "@mantine/core";
import { useEffect, useRef, type ReactNode } from "react";

import type { ApiError } from "../api/problem";
import { ErrorState } from "./ErrorState";
import { PageHeader } from "./PageHeader";

interface Props {
  title: string;
  subtitle: string;
  /** Name of the form's section. */
  section: string;
  /** Why a study named in the address cannot be read. */
  sourceError?: Error | null;
  onSubmit: (form: HTMLFormElement) => void;
  form: ReactNode;
  /** Shown while the server works on the answer. */
  waiting?: ReactNode;
  refusal: ApiError | null;
  /** The answer. */
  children: ReactNode;
}

/** A page with a form, the server's refusal if there is one, and the answer below. */
export function FormPage({ title, subtitle, section, sourceError, onSubmit, form, waiting, refusal, children }: Props) {
  return (
    <>
      <PageHeader title={title} subtitle={subtitle} />
      <Stack>
        {sourceError && <ErrorState error={sourceError} />}
        <Card component="section" aria-label={section}>
          <form
            onSubmit={(event) => {
              event.preventDefault();
              onSubmit(event.currentTarget);
            }}
            noValidate
          >
            {form}
          </form>
        </Card>
        {waiting}
        {refusal && <ErrorState error={refusal} />}
        {children}
      </Stack>
    </>
  );
}

/** Scrolls to its content whenever a new answer arrives. */
export function InView({ answer, children }: { answer: unknown; children: ReactNode }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (answer) place.current?.scrollIntoView();
  }, [answer]);
  return (
    <div ref={place} style={{ scrollMarginTop: 68 }}>
      {children}
    </div>
  );
}
