// Buttons that keep the focus: one that cannot be used now says so, but stays where
// the keyboard is.

export const $ = (id) => document.getElementById(id);

export function onPress(id, run) {
  $(id).addEventListener("click", () => {
    if (usable(id)) run();
  });
}

export function usable(id) {
  return $(id).getAttribute("aria-disabled") !== "true";
}

export function setUsable(id, on) {
  $(id).setAttribute("aria-disabled", String(!on));
}
