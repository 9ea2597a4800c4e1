import { Card, Stack, Title } from "@mantine/core";
import type { ReactNode } from "react";

import type { CustomModel } from "../../components/customModel";
import type { Field, Form } from "./form";

export interface SectionProps {
  form: Form;
  set: (field: Field, value: string) => void;
  /** What the server said about a field. */
  errors: Partial<Record<Field, string>>;
  custom: CustomModel | null;
  setCustom: (model: CustomModel | null) => void;
}

export function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Card component="section" aria-label={title}>
      <Stack gap="sm">
        <Title order={2}>{title}</Title>
        {children}
      </Stack>
    </Card>
  );
}
