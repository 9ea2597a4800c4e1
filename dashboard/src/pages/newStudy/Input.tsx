import { Select, TextInput } from "@mantine/core";

import { NumberField } from "../../components/JobFields";
import { NUMBERS, type Field } from "./form";
import type { ReactNode } from "react";
import type { SectionProps } from "./Section";

type Props = Pick<SectionProps, "form" | "set" | "errors"> & {
  field: Field;
  label: string;
  description?: ReactNode;
  placeholder?: string;
  required?: boolean;
};

function usual({ form, field, errors, label, description, placeholder, required }: Props) {
  return {
    name: field,
    label,
    value: form[field],
    error: errors[field],
    ...(description && { description }),
    ...(placeholder && { placeholder }),
    ...(required && { required }),
  };
}

export function Numeric(props: Omit<Props, "field"> & { field: keyof typeof NUMBERS; unit?: string }) {
  return <NumberField {...usual(props)} written={NUMBERS[props.field]} onChange={(value) => props.set(props.field, value)} {...(props.unit && { unit: props.unit })} />;
}

export function Choice(props: Props & { data: { value: string; label: string }[]; clearable?: boolean }) {
  return (
    <Select
      {...usual(props)}
      value={props.form[props.field] || null}
      onChange={(value) => props.set(props.field, value ?? "")}
      data={props.data}
      clearable={props.clearable ?? false}
      allowDeselect={props.clearable ?? false}
    />
  );
}

export function Text(props: Props) {
  return <TextInput {...usual(props)} onChange={(event) => props.set(props.field, event.currentTarget.value)} autoComplete="off" />;
}
