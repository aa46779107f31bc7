// Pages that are opened from a folder (file:) may not start a Worker. There, the search runs in a hidden frame, which sees
// messages as a Worker does.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const script = new URL(address, location.href).href;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = `<script>window.postMessage = data => parent.postMessage(data, "*")<\/script><script src="${script}"><\/script>`;
      this.ready = new Promise(resolve => this.frame.addEventListener("load", resolve));
      window.addEventListener("message", event => {
        if (event.source !== this.frame.contentWindow) return;
        const told = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(told);
        if (this.onmessage) this.onmessage(told);
      });
      document.body.appendChild(this.frame);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
